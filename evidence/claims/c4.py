"""C4: top-p on the leave-one-out posterior beats top-p on the denoiser."""

from evidence.claim import Claim
from evidence.frontiers import TOP_P, at_equal_entropy
from evidence.pictures import Frontiers

DENOISER, ARMS = "top-p on the denoiser", ("udm-loo-ce", "udm-denoiser-ce")
PANELS = (("chain", 32), ("stories", 64))

CLAIM = Claim(
    name="c4",
    title="Top-p on the leave-one-out posterior beats top-p on the denoiser, also for a converted denoiser",
    source="Figure `fig:nucleus-application-frontier`",
    comparisons=tuple(part for arm in ARMS for part in at_equal_entropy(arm, TOP_P, DENOISER, PANELS)),
    picture=Frontiers(tuple((arm, curve) for arm in ARMS for curve in (TOP_P, DENOISER)), PANELS),
    run="""The two networks of C1, sampled with top-p from 0.8 to 1, the paper's grid, on either posterior, same
seeds. The judge is the exact likelihood of the chain, and on TinyStories an autoregressive network.""",
    found="""On the chain top-p on the leave-one-out posterior is 0.09 nats per token ahead at equal entropy, for both
networks. Top-p on the denoiser changes less of what is drawn. The runs on text are not made yet.""",
    limits="""The entropy is that of a sample's own tokens, the axis of the field; it does not see whether samples
repeat each other.""",
    pending=True,
)

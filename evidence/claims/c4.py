"""C4: top-p on the leave-one-out posterior beats top-p on the denoiser."""

from evidence.claim import AtEqualEntropy, Claim
from evidence.pictures import Frontiers

LOO, DENOISER = "top-p on the leave-one-out posterior", "top-p on the denoiser"

CLAIM = Claim(
    name="c4",
    title="Top-p on the leave-one-out posterior beats top-p on the denoiser, also for a converted denoiser",
    source="Figure `fig:nucleus-application-frontier`",
    comparisons=tuple(
        AtEqualEntropy(
            f"{arm}: {LOO} against {DENOISER}",
            setting,
            "nats per token at equal entropy",
            favoured=(arm, LOO),
            other=(arm, DENOISER),
        )
        for arm in ("udm-loo-ce", "udm-denoiser-ce")
        for setting in ("markov", "text8")
    ),
    picture=Frontiers(tuple((arm, curve) for arm in ("udm-loo-ce", "udm-denoiser-ce") for curve in (LOO, DENOISER))),
    run="""The two networks of C1, sampled with top-p from 0.5 to 1 on either posterior, same seeds. The judge
is the exact likelihood of the chain, and on text8 an autoregressive network.""",
    found="""The clearest of the claims: about 0.17 nats per token at equal entropy, on both data sets and for
both networks. Top-p on the denoiser hardly changes what is drawn, since the denoiser believes the token that stands
there already.""",
    limits="""The entropy is that of a sample's own tokens, the axis of the field; it does not see whether samples
repeat each other.""",
)

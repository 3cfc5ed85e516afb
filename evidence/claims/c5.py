"""C5: predictor-corrector improves the frontier over temperature, and over top-p where evaluations are many."""

from evidence.claim import Claim
from evidence.frontiers import BALANCED, INFORMED, SCAN, TEMPERATURE, TOP_P, at_equal_entropy
from evidence.pictures import Frontiers

FEW, MANY = ("long", 64), ("long", 256)
MARGIN = 0.02

CLAIM = Claim(
    name="c5",
    title="The predictor-corrector sampler beats temperature, and top-p where evaluations are many",
    source="Figures `fig:predictor-corrector`, `fig:corrector-vs-nucleus`",
    comparisons=(
        *at_equal_entropy("udm-loo-ce", INFORMED, TEMPERATURE, (FEW, MANY)),
        *at_equal_entropy("udm-denoiser-ce", INFORMED, "temperature on the denoiser", (FEW, MANY)),
        *at_equal_entropy("udm-loo-ce", INFORMED, TOP_P, (FEW,), margin=MARGIN),
        *at_equal_entropy("udm-loo-ce", INFORMED, TOP_P, (MANY,)),
        *at_equal_entropy("udm-loo-ce", BALANCED, TEMPERATURE, (FEW, MANY), "context"),
        *at_equal_entropy("udm-loo-ce", SCAN, TEMPERATURE, (FEW, MANY), "context"),
    ),
    picture=Frontiers(
        tuple(("udm-loo-ce", curve) for curve in (TEMPERATURE, TOP_P, INFORMED, BALANCED, SCAN)), (FEW, MANY)
    ),
    run="""The chain in sequences of 256 tokens, with 64 and with 256 evaluations. Every setting of the corrector
(m = 1 or 2 steps of k = 1, 2 or 4 positions, chosen at temperature 0, as the paper's algorithm says, or 1, as its
code does) against the curve of ancestral samples over temperature, on the posterior that the network predicts, and
over top-p. The paper finds corrector and top-p broadly competitive at its smaller budgets, which is the margin of
0.02 here, and the corrector ahead at its larger ones. Correctors that keep the law are shown beside.""",
    found="Its runs are not made yet.",
    limits="""A chain has no structure beyond neighbours, and a sequence of 256 tokens is a quarter of the
paper's.""",
    pending=True,
)

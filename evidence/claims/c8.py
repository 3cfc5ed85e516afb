"""C8: MUDM with resampled times improves an unmodified MDM network at equal evaluations (nobody has tested it)."""

from evidence.claim import Claim, Difference, Figure
from evidence.frontiers import TEMPERATURE, at_equal_entropy
from evidence.pictures import Frontiers

REDRAWN, SAMPLER = "mudm with redrawn times", "mudm:resample=true"
CHAIN, STORIES = (("chain", 6), ("chain", 48)), (("stories", 16), ("stories", 128))

CLAIM = Claim(
    name="c8",
    title="MUDM with redrawn times improves an unmodified MDM network at equal evaluations",
    source="ours to test: Section `sec:mudm` constructs the sampler and does not try it",
    comparisons=(
        *at_equal_entropy("mdm", REDRAWN, TEMPERATURE, CHAIN + STORIES),
        *(
            Difference(
                f"distance of pairs of tokens from the chain's, {budget} evaluations",
                setting,
                "total variation",
                favoured=Figure("mdm", "neighbours: redrawn times", f"{budget}/{SAMPLER}/pairs"),
                other=Figure("mdm", "neighbours: redrawn times", f"{budget}/ancestral/pairs"),
            )
            for setting, budget in CHAIN
        ),
        Difference(
            "puzzles solved at 64 evaluations",
            "sudoku",
            "share of puzzles solved",
            favoured=Figure("mdm", "solving", f"{SAMPLER}/64/solve_rate"),
            other=Figure("mdm", "solving", "ancestral/64/solve_rate"),
            larger=True,
        ),
        *at_equal_entropy("mdm", "mudm", TEMPERATURE, CHAIN, "context"),
        *at_equal_entropy("mdm", "remasking", TEMPERATURE, CHAIN, "context"),
    ),
    picture=Frontiers(tuple(("mdm", curve) for curve in (TEMPERATURE, REDRAWN, "mudm", "remasking")), CHAIN + STORIES),
    run="""The MDM networks of C3 and C6, without any change, sampled as masked diffusion and as masked uniform
diffusion whose times are drawn anew at every step, so that tokens can be revised, with a quarter of the evaluations
that a token at a time would take and with twice as many. Evaluations are counted: masked diffusion never spends more
than one per position and has its best there. MUDM with fixed times and ReMDM are shown beside.""",
    found="""On the chain the two samplers are level at both budgets: in distance of pairs to 0.003, and in nats at
equal entropy to 0.01 where evaluations are many. Masked diffusion needs half of the larger budget for it. The runs on
text and Sudoku are not made yet.""",
    limits="""Sequences are short; where many tokens depend on each other, revising may do more.""",
    pending=True,
)

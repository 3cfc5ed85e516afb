"""`exact` of a kernel is honest at every setting: where it is True, many steps end in p_0.

Two tokens that are equal nine times in ten are drawn in 64 steps.  Those leave a total variation of at most 0.05 (the
slowest, psi with kappa = 0, redraws both tokens at once at every step), and 4,000 draws of four sequences add 0.045
with a probability below 1e-6: one of the 7 events would be 5.7 standard deviations off.  Where `exact` is False nothing
is claimed; what is far off shows that the test can fail.
"""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.samplers.helpers import CELLS, EXTREMES, KERNELS, Cell, kernel_of, process_of, supported, total_variation
from tests.statistics import sequence_counts
from tokenloom.samplers import Predictor

pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks are on in `test_conformance.py`, for the same settings

TOGETHER = torch.tensor([[0.6, 0.04], [0.06, 0.3]], dtype=torch.float64)
ROWS, STEPS = 4_000, 64
LEFT, CHANCE = 0.05, 0.045
SETTINGS = [*KERNELS, *EXTREMES]
INEXACT = {
    *("adaptive", "adaptive:parallel=1,draw=true", "adaptive:parallel=99", "adaptive:threshold=0,draw=true"),
    "adaptive:threshold=1,on=denoiser",
    *("entropy-bound", "entropy-bound:bound=0,hot=9", "entropy-bound:bound=99,cold=1e-9"),
    *("dndm", "forward-backward", "greedy-tail", "informed", "reaudm", "routing"),
    *("forward-backward:amount=0.9", "forward-backward:amount=0.001,steps=2"),
    *("balanced:g=min,parallel=true,time=2", "balanced:parallel=true,time=0.1,steps=2"),
    *("informed:by=current,temperature=1", "informed:by=top,parallel=2", "scan:metropolised=true,parallel=2"),
    *("informed:parallel=2", "informed:steps=2,temperature=2"),
    *("mudm:resample=true", "mudm:resample=true,noise=hybrid"),
    *("random-scan:parallel=2", "scan:parallel=2"),
    *("remasking:schedule=loop,eta=1", "remasking:schedule=loop,loop_start=0.9,loop_end=0.1"),
    "remasking:schedule=loop,eta=1,loop_level=0.9,switch=0.2",
}
"""Settings that claim nothing."""
EXACT = [setting for setting in EXTREMES if kernel_of(setting).exact]
FIRST = {setting.split(":")[0]: setting for setting in reversed(EXACT)}
CLAIMS = [
    (setting, kind)
    for setting in EXACT
    for kind in supported(type(kernel_of(setting)), CELLS if setting in FIRST.values() else [tl.Masked, tl.Uniform])
]
"""The first extreme of every kernel under all cells, the others under masked and uniform diffusion."""


def draw(setting: str, kind: Cell, p0: Tensor = TOGETHER) -> Tensor:
    """A run of the predictor, or of ancestral steps beside the corrector."""
    sampler = setting if isinstance(kernel_of(setting), Predictor) else f"ancestral + {setting}"
    model = tl.Oracle(p0, process_of(kind, 2, 2))
    return tl.sample(
        model, ROWS, steps=STEPS, sampler=sampler, grid="uniform", generator=torch.Generator().manual_seed(0)
    )


def test_the_settings_that_claim_nothing_are_these() -> None:
    assert {setting for setting in SETTINGS if not kernel_of(setting).exact} == INEXACT


@pytest.mark.parametrize(("setting", "kind"), CLAIMS)
def test_an_extreme_setting_that_claims_to_be_exact_ends_in_p_0(setting: str, kind: Cell) -> None:
    found = sequence_counts(draw(setting, kind), 2) / ROWS
    assert total_variation(found, TOGETHER) < LEFT + CHANCE


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating, tl.Hybrid])
@pytest.mark.parametrize("setting", ["scan:parallel=2", "random-scan:parallel=2"])
def test_scans_that_redraw_both_tokens_at_once_lose_what_holds_them_together(setting: str, kind: Cell) -> None:
    """Equal about 0.65 of the time instead of 0.9; 4,000 draws measure it to 0.04, with a false-alarm rate of 1e-6."""
    assert not kernel_of(setting).exact
    tokens = draw(setting, kind, torch.tensor([[0.45, 0.05], [0.05, 0.45]], dtype=torch.float64))
    assert float((tokens[:, 0] == tokens[:, 1]).double().mean()) == pytest.approx(0.65, abs=0.06)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("remasking:schedule=loop,eta=1", tl.Masked),
        ("forward-backward:amount=0.9", tl.Uniform),
        ("informed:parallel=2", tl.Uniform),
        ("dndm", tl.Uniform),
        ("routing", tl.Uniform),
        ("adaptive", tl.Uniform),
        ("entropy-bound", tl.Uniform),
    ],
)
def test_settings_that_claim_nothing_may_be_far_from_p_0(setting: str, kind: Cell) -> None:
    found = sequence_counts(draw(setting, kind), 2) / ROWS
    assert total_variation(found, TOGETHER) > LEFT + CHANCE

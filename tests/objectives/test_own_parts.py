"""A part that closed forms recognise by its type is what its name says; one of one's own is read by what it says."""

from dataclasses import dataclass

import pytest
import torch

import tokenloom as tl
from tests.objectives.test_likelihood import P0, K, check_entropy
from tokenloom.noise import Law, TableLaw, UniformLaw
from tokenloom.posteriors import Posterior

PI = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)


@pytest.mark.parametrize("sealed", [tl.Process, UniformLaw, TableLaw, tl.couplings.Markov, tl.couplings.Absorbing])
def test_what_closed_forms_rely_on_cannot_be_subclassed(sealed: type) -> None:
    with pytest.raises(TypeError, match=f"{sealed.__name__} cannot be subclassed, because closed forms rely on what"):
        type("Own", (sealed,), {})


@dataclass(frozen=True)
class Tilted(tl.noise.Uniform):
    """Noise that says it is uniform, and has a law of its own."""

    def law(self) -> Law:
        return TableLaw(PI.unsqueeze(0))


@pytest.mark.parametrize("coupling", [tl.couplings.Markov(), tl.couplings.Absorbing()], ids=lambda it: it.name)
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_a_noise_that_overrides_its_law_is_scored_by_that_law(
    predicts: type[Posterior], coupling: tl.couplings.Coupling
) -> None:
    """It is the entropy, from the same draws as those of the table; read as uniform noise it would not be."""
    figures = []
    for noise in (Tilted(K), tl.noise.Table(K, PI)):
        process = tl.Process(noise, coupling)
        assert not process.uniform_noise
        figures.append(check_entropy(tl.Oracle(P0, process, predicts=predicts), 5))
    found, table = figures
    torch.testing.assert_close(found.per_sequence, table.per_sequence, rtol=1e-12, atol=1e-12)

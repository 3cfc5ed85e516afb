"""The public checkers pass what the library ships, and catch a lie of each kind when it is planted."""

import itertools
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests import brute
from tokenloom.couplings.base import OneWay
from tokenloom.noise.law import Law, TableLaw
from tokenloom.noise.masses import StillMasses
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.samplers import CORRECTORS, PREDICTORS, Corrector, Evaluator, Predictor, RandomScan
from tokenloom.testing import (
    Report,
    check_coupling,
    check_model,
    check_network,
    check_noise,
    check_objective,
    check_process,
    check_sampler,
)

pytestmark = pytest.mark.usefixtures("as_a_user")
K = 3
ZEROS = torch.tensor([[0.0, 0.4, 0.6], [0.5, 0.2, 0.3]], dtype=torch.float64)
NOISES = [
    tl.noise.Uniform(K),
    tl.noise.Mask(K),
    tl.noise.Mask(K + 1, mask_id=1),
    tl.noise.Table(K, ZEROS),
    tl.noise.Table(K, brute.point_pi([1], K)),
    tl.noise.MaskAndUniform(K, 0.2),
]
COUPLINGS = [tl.couplings.Markov(), tl.couplings.Maximal(), tl.couplings.Absorbing(), tl.couplings.TransitionTimes()]


def sound(report: Report) -> None:
    assert report, f"\n{report}"


def caught(report: Report, law: str) -> None:
    assert any(law in sentence for sentence in report.broken), f"nothing says {law!r}\n{report}"


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_noises_keep_their_laws(noise: tl.noise.Noise) -> None:
    sound(check_noise(noise))


@pytest.mark.parametrize("noise", NOISES[:-1], ids=repr)
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_the_couplings_keep_their_laws(noise: tl.noise.Noise, coupling: tl.couplings.Coupling) -> None:
    sound(check_coupling(coupling, noise))


@pytest.mark.parametrize(
    "process", [tl.Uniform(K), tl.MaxCoupling(K), tl.Hybrid(K, 0.3)], ids=lambda process: process.name
)
def test_the_processes_keep_their_laws(process: tl.Process) -> None:
    sound(check_process(process))


SAMPLERS = [
    *map(PREDICTORS.parse, ("ancestral", "psi", "gillespie", "reaudm", "mudm", "confidence")),
    *map(PREDICTORS.parse, ("adaptive", "entropy-bound")),
]


@pytest.mark.parametrize("kernel", [*SAMPLERS, *map(CORRECTORS.parse, ("random-scan", "informed"))])
def test_samplers_keep_their_laws(kernel: Predictor | Corrector) -> None:
    sound(check_sampler(kernel))


OBJECTIVES = [
    *itertools.product(
        ("ce", "nelbo", "markov-nelbo", "rate-nelbo", "finite-step:steps=8"),
        (tl.Uniform(K), tl.Interpolating(K, ZEROS)),
    ),
    *itertools.product(("jump-nelbo",), (tl.Masked(K), tl.MaxCoupling(K), tl.AbsorbingUniform(K))),
    ("nelbo", tl.MaskedUniform(K)),  # no score network, and yet a bound
]


@pytest.mark.parametrize(("name", "process"), OBJECTIVES, ids=lambda value: getattr(value, "name", value))
def test_objectives_keep_their_laws(name: str, process: tl.Process) -> None:
    sound(check_objective(tl.objectives.OBJECTIVES.parse(name), process))


@pytest.mark.parametrize("kind", [tl.nn.DiT, tl.nn.HollowTransformer])
def test_networks_and_models_keep_their_laws(kind: Any) -> None:
    config = tl.nn.TransformerConfig(K, K, 8, width=16, depth=2, heads=2)
    sound(check_model(tl.DiffusionModel(kind(config), tl.Uniform(K))))


# ---------------------------------------------------------------- planted lies


def test_a_uniform_noise_that_draws_otherwise_is_what_its_law_says() -> None:
    """The lie of 0.2: a subclass of uniform noise with another law.  Its law is asked, so there is nothing to catch."""

    class Tilted(tl.noise.Uniform):
        def law(self) -> Law:
            return TableLaw(torch.tensor([[[0.7, 0.2, 0.1]]], dtype=torch.float64))

    sound(check_process(tl.Process(Tilted(K))))
    assert not tl.Process(Tilted(K)).uniform_noise


@pytest.mark.parametrize(
    ("method", "law"),
    [
        ("renewed", "renewed = 1 - h_s/h_t"),
        ("renewal_rate", "renewal_rate = (log h)'"),
        ("alpha_prime", "alpha_prime is the derivative"),
        ("time_at_lost", "time_at_lost inverts"),
        ("later", "later and pace follow log h"),
    ],
)
def test_masses_that_lie_about_time_are_caught(method: str, law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(StillMasses, method)

    def wrong(self: StillMasses, *args: Tensor) -> Any:
        value = right(self, *args)
        return tuple(0.9 * part for part in value) if isinstance(value, tuple) else 0.9 * value

    monkeypatch.setattr(StillMasses, method, wrong)
    caught(check_noise(tl.noise.Uniform(K)), law)


@dataclass(frozen=True)
class Hasty(OneWay):
    """A path that is found too early."""

    name = "hasty"

    def found(self, process: tl.Process, noisy: tl.Noisy, s: Tensor) -> Tensor:
        return super().found(process, noisy, s) ** 2


def test_a_coupling_that_loses_the_marginals_is_caught() -> None:
    report = check_coupling(Hasty(), tl.noise.Uniform(K))
    caught(report, "steps down keep the marginals")
    caught(report, "its clock is the integral of its rates")


def test_a_one_way_coupling_cannot_draw_noise() -> None:
    with pytest.raises(TypeError, match="Noisier is one-way: it defines found, and its shares follow"):
        type("Noisier", (OneWay,), {"shares": lambda self, process, noisy, s: (0, 1)})


def test_a_kernel_that_calls_itself_exact_is_caught() -> None:
    @dataclass(frozen=True)
    class Proud(RandomScan):
        exact = True

    assert not RandomScan(parallel=2).exact
    caught(check_sampler(Proud(parallel=2)), "it calls itself exact")


def test_a_predictor_that_ignores_givens_or_seeds_is_caught() -> None:
    @dataclass(frozen=True)
    class Careless(Predictor):
        name = "careless"

        def step(self, evaluate: Evaluator, noisy: tl.Noisy, s: Tensor, generator: Any) -> tl.Noisy:
            drawn = torch.randint(evaluate.process.vocab_size, tuple(noisy.tokens.shape))
            return evaluate.process.move_to(noisy, drawn, s)

    report = check_sampler(Careless())
    caught(report, "the same seeds draw the same tokens")
    caught(report, "it calls itself exact")


def test_an_objective_whose_minimum_lies_elsewhere_is_caught() -> None:
    @dataclass(frozen=True)
    class Sharp(tl.objectives.CrossEntropy):
        def per_token(self, prediction: Posterior, x_0: Tensor, noisy: tl.Noisy, process: tl.Process) -> Tensor:
            assert isinstance(prediction, OverTokens)
            sharp = replace(prediction, logits=prediction.logits / 2)
            return super().per_token(sharp, x_0, noisy, process)

    caught(check_objective(Sharp(), tl.Masked(K)), "a sharper prediction")


def test_a_network_that_lies_about_itself_is_caught() -> None:
    class Liar(nn.Module):
        hollow = timeless = True
        length = 8

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(K, K)

        def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
            mixed: Tensor = self.embedding(tokens) + time[:, None, None].float()
            return mixed * torch.arange(1, K + 1)

    report = check_network(Liar(), tl.Uniform(K))
    caught(report, "it is hollow")
    caught(report, "it is timeless")


def test_a_model_with_two_readers_is_caught() -> None:
    class TwoReaders(tl.DiffusionModel):
        def predict(self, noisy: tl.Noisy) -> Posterior:
            return tl.LeaveOneOut(self.logits(noisy).flip(-1))

    config = tl.nn.TransformerConfig(K, K, 8, width=16, depth=2, heads=2)
    network = tl.nn.DiT(config)
    with torch.no_grad():
        for parameter in network.head.parameters():
            parameter.normal_()
    caught(check_model(TwoReaders(network, tl.Uniform(K))), "predict is interpret of its logits")


def test_a_vocabulary_that_is_too_large_to_enumerate_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 16 tokens, got 17"):
        check_noise(tl.noise.Uniform(17))

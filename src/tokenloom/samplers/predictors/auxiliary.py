r"""Chains with an auxiliary variable: transition times tau with any network, and tau or U redrawn after every step.

    x_0 ~ p(. | x_t, aux_t),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *Markov* bridge,   aux_s ~ p(. | x_0, x_s)

is the reverse Markov chain of the same noise; aux is the absorbing sequence U of AUDM (ReAUDM, `alg:reaudm-sampler`) or
the transition times tau of MUDM (`alg:mudm-flag-resampling`).  With x_0 drawn from its joint posterior it is that chain
to the letter, for every noise.  A network draws it position by position, and aux_s then forgets how the positions of
x_0 hang together, at every step however small: for L > 1 the limit of many steps is close to p_0 (a total variation of
about 3e-3 on small tables), not p_0.  With tau fixed, x_s = x_0 where s < tau <= t, else x_t, the limit is p_0.
"""

from dataclasses import dataclass, replace

from tokenloom.couplings.markov import Markov
from tokenloom.couplings.steps import bridge
from tokenloom.couplings.transition_times import TransitionTimes
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.models.protocol import Model
from tokenloom.noise import NOISES, MaskAndUniform
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor, UniformOnly
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow


@PREDICTORS.register("reaudm")
@dataclass(frozen=True)
class Resampled(Predictor):
    """Resampled auxiliary variable: ReAUDM for an absorbing sequence, MUDM with resampled times.
    A lifted process has its auxiliary variable redrawn after every step: the reverse Markov chain of the same noise.

    A token that x_t and aux reveal is its own x_0 (`eq:carry-over-uniform`), so only the others are predicted.
    """

    needs = "a process with an auxiliary variable"
    exact = False  # redrawing aux position by position forgets how the positions of x_0 depend on each other

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.lifted

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        local = evaluate(noisy).at(process.evidence(noisy).isfinite(), Denoiser)
        x_0 = local.draw(noisy.tokens, u)
        renewing = process.with_coupling(Markov())
        x_s = process.move_to(noisy, bridge(renewing, noisy, s, x_0).draw(generator), s)
        return replace(x_s, aux=process.resampled(x_0, x_s, generator))


@PREDICTORS.register("mudm")
@dataclass(frozen=True)
class MUDM(Predictor):
    """Transition times on top of a masked network.
    They are driven by an unmodified *masked* network: a chain with the marginals of any other noise.

    With tau redrawn it is the reverse chain of UDM (or of GIDD, with hybrid noise), up to what the redrawn tau forgets.
    Only tokens already lost (tau <= t) are predicted; with tau fixed, only those that arrive.
    """

    resample: bool = False
    """Redraw tau after every step."""
    noise: str = "uniform"
    """The noise that a masked model's lost tokens show, by its registered name; `hybrid` needs `resample`."""

    needs = "a masked process or one with transition times"

    def __post_init__(self) -> None:
        super().__post_init__()
        if issubclass(NOISES[self.noise], MaskAndUniform) and not self.resample:
            raise ValueError(
                f"{self.noise} noise has no chain with its times fixed; use mudm:resample=true,noise={self.noise}"
            )

    @property
    def exact(self) -> bool:
        return not self.resample

    @classmethod
    def supports(cls, process: Process) -> bool:
        return isinstance(process.coupling, TransitionTimes) or process.masking

    def prepare(self, model: Model) -> Model:
        self.check(model)
        process = model.process
        if isinstance(process.coupling, TransitionTimes):
            if not self.resample and not process.has_bridge:
                raise ValueError(f"{process.title} has no chain with its times fixed; use mudm:resample=true")
            return model
        mask = process.mask_in_vocabulary
        options = {} if mask is None or not issubclass(NOISES[self.noise], MaskAndUniform) else {"mask_id": mask}
        noise = NOISES.parse(self.noise, vocab_size=process.vocab_size, **options)
        return model.with_process(Process(noise, TransitionTimes(mask), process.schedule))

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        return (Resampled() if self.resample else Ancestral()).step(evaluate, noisy, s, generator)


@PREDICTORS.register("dndm")
@dataclass(frozen=True)
class DNDM(UniformOnly, Predictor):
    """Transition times that are drawn once.
    DNDM (Chen et al.): transition times with a *plain* denoiser, which does not see them.

        tau^l with P(tau < t) = 1 - alpha_t, drawn once;   x_s^l ~ mu^l(x_t) where s < tau^l <= t, else x_t^l

    The network is asked only when a transition falls into the step.  Given tau the exact posterior is a masked model's
    (`lem:mudm-denoiser-equivalence`), not mu: use `mudm` for a chain that ends in p_0.

    The times are the sampler's own memory.  A corrector beside it may change any token; a token it changes before its
    time has come is replaced when it comes, and one it changes afterwards stays, even as noise that the truncation
    forbids.
    """

    exact = False

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> PerPosition:
        """Draw times up to the state's own: what has not come by then comes below."""
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        alpha = noisy.alpha_t[:, None]
        return process.time_at(alpha + (1 - alpha) * u).minimum(noisy.t[:, None])

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: PerPosition
    ) -> tuple[Noisy, PerPosition]:
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        arriving = noisy.free & (memory > s[:, None]) & (memory <= noisy.t[:, None])
        local = evaluate(noisy).at(arriving, Denoiser)
        return evaluate.process.move_to(noisy, local.draw(noisy.tokens, u), s), memory

"""The samplers that `tokenloom bench sampling` measures, each with the network it runs on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

import tokenloom as tl
from benchmarks.imported import bert_network, mdlm_network
from benchmarks.size import Size
from tokenloom import DiffusionModel, Process, Sampler
from tokenloom.nn import DiT, TransformerConfig
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior


@dataclass(frozen=True)
class Case:
    """A sampler, the process it runs under and what the network predicts."""

    process: Callable[..., Process]
    predicts: type[Posterior]
    predictor: str = "ancestral"
    corrector: str | None = None
    top_p: float = 1.0
    over_body: float | None = None
    """The largest ratio of a step to the network's body that it may take."""
    timed: bool = True
    """Whether the network is conditioned on the time."""
    imported: Callable[[Size], nn.Module] | None = None
    """What makes a network of another library."""
    mask_inside: bool = False
    """Whether the mask is the last id of the vocabulary and not one more."""
    splits: bool = True
    """False for a plain callable, which has no head to ask apart."""

    def sampler(self, steps: int) -> Sampler:
        """With this budget of network evaluations."""
        return Sampler.parse(self.predictor, corrector=self.corrector, steps=steps, top_p=self.top_p)

    def process_of(self, size: Size) -> Process:
        """The process on this vocabulary."""
        inside: dict[str, Any] = {"mask_id": size.vocab - 1} if self.mask_inside else {}
        return self.process(size.vocab, **inside)


CASES = {
    "UDM plug-in": Case(tl.Uniform, LeaveOneOut),
    "UDM plug-in, own callable": Case(tl.Uniform, LeaveOneOut, splits=False),
    "UDM plug-in, top-p 0.9": Case(tl.Uniform, LeaveOneOut, top_p=0.9),
    "UDM marginalised denoiser": Case(tl.Uniform, Denoiser),
    "UDM denoiser, top-p 0.9 on leave-one-out": Case(tl.Uniform, Denoiser, "ancestral:through=plug-in", top_p=0.9),
    "UDM predictor-corrector": Case(tl.Uniform, LeaveOneOut, corrector="informed:steps=2,parallel=4"),
    "UDM Psi": Case(tl.Uniform, LeaveOneOut, "psi"),
    "UDM Euler": Case(tl.Uniform, LeaveOneOut, "euler"),
    "UDM tau-leaping": Case(tl.Uniform, LeaveOneOut, "tau-leaping"),
    "MDM": Case(tl.Masked, Denoiser, over_body=1.15),
    "MDM, top-p 0.9": Case(tl.Masked, Denoiser, top_p=0.9),
    "MDM without time": Case(tl.Masked, Denoiser, timed=False),
    "MDM, imported MDLM": Case(tl.Masked, Denoiser, imported=mdlm_network),
    "MDM, imported BERT": Case(tl.Masked, Denoiser, imported=bert_network, mask_inside=True),
    "MDM remasking": Case(tl.Masked, Denoiser, "remasking"),
    "max coupling": Case(tl.MaxCoupling, Denoiser, over_body=1.15),
    "AUDM": Case(tl.AbsorbingUniform, Denoiser, over_body=1.15),
    "ReAUDM": Case(tl.AbsorbingUniform, Denoiser, "reaudm"),
    "MUDM": Case(tl.Masked, Denoiser, "mudm"),
    "MUDM resampled": Case(tl.Masked, Denoiser, "mudm:resample=true"),
}


class Networks:
    """One network for all cases that are alike in whether they read U and the time, and in where it comes from."""

    def __init__(self, size: Size, like: "Networks | None" = None) -> None:
        self.size, self.compiled = size, like is not None
        self._made: dict[object, nn.Module] = {} if like is None else like._made

    def compiling(self) -> "Networks":
        """The same networks in models that are compiled."""
        return Networks(self.size, like=self)

    def of(self, case: Case) -> nn.Module:
        """The network of a case, made once."""
        absorbing = case.process_of(self.size).shows_auxiliary
        key = (absorbing, case.timed, case.imported)
        if key not in self._made:
            make = case.imported
            self._made[key] = random_network(self.size, absorbing, case.timed) if make is None else make(self.size)
        return self._made[key]

    def model(self, case: Case, network: Any) -> DiffusionModel:
        """A model of a case around its network, or what stands for it; compiled if these are."""
        model = DiffusionModel(network, case.process_of(self.size), predicts=case.predicts)
        if self.compiled:
            model.compile()
        return model


def random_network(size: Size, absorbing: bool = False, timed: bool = True) -> DiT:
    """A network whose every weight is random: logits with a spread of about 2, open gates."""
    torch.manual_seed(0)
    config = TransformerConfig(size.vocab, size.vocab + 1, size.length, size.width, size.depth, size.heads)
    network = DiT(replace(config, absorbing=absorbing, time=timed)).eval()
    for module in network.modules():
        if isinstance(module, nn.Linear) and not bool(module.weight.any()):
            nn.init.normal_(module.weight, std=0.02)
    nn.init.normal_(network.get_parameter("head.weight"), std=2 / size.width**0.5)
    return network

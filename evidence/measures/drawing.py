r"""What a way of drawing does to a heavy-tailed law: masked diffusion in n steps whose network is one fixed softmax p.

Every position ends with a draw of p, whatever n is.  The textbook step draws from the dense law q = (p/n', 1 - 1/n'),
n' the steps left, by the exponential trick, argmax_k q_k / E_k with E = -log u.  In float32 u is a multiple of
e = 2^-24, so E is one of e, 2e, 3e, ... where it is small, and a token wins with

    sum over i of e exp(-i e / q)  =  q z / (exp(z) - 1),      z = e / q,

in the place of q: next to nothing where q is below e.  The smaller p/n', the more of the tail is lost, and the mass of
all steps together is the law that the textbook's tokens have (`textbook_law`).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import tokenloom as tl
from evidence.measures.base import Measure
from evidence.runs import Place, Run
from tokenloom.evaluation.metrics import unigram_entropy

SIZES = {"vocabulary of 50,257": (50_257, 512), "vocabulary of 27": (27, 4096)}
"""Tokens of the law, and positions that are drawn the textbook way."""
POSITIONS = 16_384
"""Positions that are drawn the exact way."""
LAW = 1
"""The seed of the law, which is one for all seeds."""
STEPS = 256
FLOAT32 = 2.0**-24
"""The step between the float32 numbers that uniform draws are among."""
LENGTH = 512
"""Positions of a sequence, whose entropy is measured."""


def heavy_tailed(vocab_size: int, seed: int) -> Tensor:
    """Log-probabilities that fall as a power of the rank with noise, as the unigrams of a language."""
    generator = torch.Generator().manual_seed(seed)
    logits = -1.1 * torch.arange(2, vocab_size + 2, dtype=torch.float64).log()
    return torch.log_softmax(logits + torch.randn(vocab_size, generator=generator, dtype=torch.float64), 0)


def draw_textbook(law: Tensor, positions: int, steps: int, generator: torch.Generator) -> Tensor:
    """Masked diffusion with dense float32 laws, for the positions that are still masked."""
    tokens = torch.full((positions,), len(law))
    for left in range(steps, 0, -1):
        masked = (tokens == len(law)).nonzero().squeeze(1)
        step = torch.cat([law.exp() / left, law.new_tensor([1 - 1 / left])]).float()
        for first in range(0, len(masked), 256):
            part = masked[first : first + 256]
            waits = -(torch.rand(len(part), len(step), generator=generator) + 1e-10).log() + 1e-10
            tokens[part] = (step / waits).argmax(-1)
    return tokens


def textbook_law(law: Tensor, steps: int) -> Tensor:
    """The law of the textbook's tokens, in closed form."""
    drawn, masked = torch.zeros_like(law), 1.0
    for left in range(steps, 0, -1):
        q = law.exp() / left
        z = FLOAT32 / q
        lowered = q * z / torch.expm1(z)
        win = lowered / (lowered.sum() + 1 - 1 / left)
        drawn += masked * win
        masked *= 1 - float(win.sum())
    return drawn / drawn.sum()


def draw_exact(law: Tensor, positions: int, steps: int, generator: torch.Generator) -> Tensor:
    """The same by `tl.sample`."""
    logits = law.float()

    def network(tokens: Tensor, time: Tensor) -> Tensor:
        return logits.expand(*tokens.shape, -1)

    model = tl.DiffusionModel(network, tl.Masked(len(law)), predicts=tl.Denoiser)
    rows = [
        tl.sample(
            model, 1, length=min(LENGTH, positions - first), steps=steps, grid="uniform", generator=generator
        ).flatten()
        for first in range(0, positions, LENGTH)
    ]
    return torch.cat(rows)


@dataclass(frozen=True)
class Drawing(Measure):
    """Nats of the drawn tokens under the law, and the entropy of sequences of them, beside what the law says."""

    name: str = "drawing"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        vocab_size, positions = SIZES[run.arm]
        if place.scale == "tiny":
            return {
                "law": LAW,
                "vocab_size": min(vocab_size, 100),
                "textbook": 32,
                "exact": 32,
                "steps": 4,
                "length": 16,
            }
        return {
            "law": LAW,
            "vocab_size": vocab_size,
            "textbook": positions,
            "exact": POSITIONS,
            "steps": STEPS,
            "length": LENGTH,
        }

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = self.settings(run, place)
        law = heavy_tailed(chosen["vocab_size"], LAW)
        generator = torch.Generator().manual_seed(run.seed)
        inverse = torch.rand(chosen["exact"], generator=generator, dtype=torch.float64)
        drawn = {
            "float32": draw_textbook(law, chosen["textbook"], chosen["steps"], generator),
            "exact": draw_exact(law, chosen["exact"], chosen["steps"], generator),
            "reference": torch.searchsorted(law.exp().cumsum(0), inverse).clamp(max=len(law) - 1),
        }
        length = min(chosen["length"], chosen["textbook"])
        found = {
            name: {
                "nats": float(-law[tokens].mean()),
                "entropy": float(unigram_entropy(tokens[: len(tokens) // length * length].view(-1, length)).mean()),
            }
            for name, tokens in drawn.items()
        }
        predicted = float(-(textbook_law(law, chosen["steps"]) * law).sum())
        return found | {"law": {"nats": float(torch.special.entr(law.exp()).sum())}, "predicted": {"nats": predicted}}

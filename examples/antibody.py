"""A protein language model as a denoiser: the CDR-H3 loop of an antibody, redesigned and scored.

AntiBERTy (26M parameters, a BERT of antibody sequences) is read from its package as the denoiser of a masked process.
The heavy chain of trastuzumab is given except its third loop, the part that varies most between antibodies.  Reported

    recovered   residues of the loop that a sampler restores, against chance: 1 in 20, and against the most common ones
                of the loop's own composition, drawn independently
    bound       -log p(loop | framework) in nats at most, for the true loop and for shuffles of its residues

with their standard errors.  Recovery says how constrained the loop is, not how good a binder a design is.

    pip install --no-deps antiberty==0.1.3
"""

import importlib.util
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.models.interop.importing import import_model

BEFORE = "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKGRFTISADTSKNTAYLQMNSLRAEDTAVYYC"
LOOP = "SRWGGDGFYAMDY"
BEHIND = "WGQGTLVTVSS"
SAMPLERS = {
    "ancestral": "ancestral",
    "confidence": "confidence",
    "MUDM": "mudm:resample=true",
    "ReMDM": "remasking",
}


@dataclass(frozen=True)
class Figure:
    """A mean with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def load() -> tl.DiffusionModel:
    """The model of the package, which is not imported: only its weights and its vocabulary are read."""
    found = importlib.util.find_spec("antiberty")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("this example needs the weights of AntiBERTy; run pip install --no-deps antiberty==0.1.3")
    folder = Path(next(iter(found.submodule_search_locations))) / "trained_models"
    return import_model(folder / "AntiBERTy_md_smooth", tokenizer=folder / "vocab.txt", pickles=True).model


def figure(values: Tensor) -> Figure:
    """The mean of independent values."""
    values = values.double()
    return Figure(float(values.mean()), float(values.std() / len(values) ** 0.5))


def recovered(
    model: tl.DiffusionModel, chain: Tensor, framework: Tensor, sampler: str, steps: int, draws: int
) -> Figure:
    """The share of the loop's residues that independent draws restore."""
    drawn = tl.sample(
        model,
        draws,
        length=len(chain),
        steps=steps,
        sampler=sampler,
        given=(chain, framework),
        generator=torch.Generator().manual_seed(0),
    )
    return figure((drawn == chain)[:, ~framework].double().mean(1))


def bound(model: tl.DiffusionModel, chains: Tensor, framework: Tensor, samples: int) -> Figure:
    """Nats of the loop given the framework: one estimate per chain and sample of the noise."""
    rows = chains.repeat(samples // len(chains), 1)
    given, generator = framework.expand_as(rows), torch.Generator().manual_seed(1)
    found = tl.nelbo(model, rows, samples=1, batch=16, given=given, generator=generator)
    return Figure(found.nats, found.standard_error)


def main(draws: int = 10, steps: int = 8, samples: int = 160) -> tuple[dict[str, Figure], Figure, Figure]:
    """Recovery per sampler, and the bounds of the true and of shuffled loops, printed as a table."""
    model = load()
    chain = torch.tensor(model.encode(BEFORE + LOOP + BEHIND))
    place = torch.arange(len(chain))
    framework = (place < len(BEFORE)) | (place >= len(BEFORE) + len(LOOP))
    own = sum((count / len(LOOP)) ** 2 for count in Counter(LOOP).values())
    print(
        f"recovered residues of {LOOP}, {draws} draws of {steps} evaluations; chance 0.050, own composition {own:.3f}"
    )
    results = {}
    for name, sampler in SAMPLERS.items():
        results[name] = recovered(model, chain, framework, sampler, steps, draws)
        print(f"  {name:12}{results[name]}")
    generator = torch.Generator().manual_seed(2)
    loops = torch.stack([chain[~framework][torch.randperm(len(LOOP), generator=generator)] for _ in range(samples)])
    shuffled = chain.repeat(samples, 1).index_put((torch.arange(samples)[:, None], place[~framework]), loops)
    true, other = bound(model, chain[None], framework, samples), bound(model, shuffled, framework, samples)
    print(f"bound in nats: true loop {true}, shuffled loops {other}")
    return results, true, other


if __name__ == "__main__":
    main()

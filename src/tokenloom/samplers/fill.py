"""Sequences of different lengths, each drawn as if it were alone: `tl.fill` fills in the blanks of texts."""

from collections.abc import Sequence
from typing import Any

import torch

from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.models.model import DiffusionModel
from tokenloom.samplers.run import OnStep
from tokenloom.samplers.sampler import Sampler
from tokenloom.samplers.stopping import Until
from tokenloom.samplers.templates import Cells, given_tokens, template_cells
from tokenloom.support.typed import checked


@checked
def fill(model: DiffusionModel, templates: str | Sequence[str], *, seed: int = 0, **settings: Any) -> list[str]:
    """Fill in the blanks of texts, `_` for a token each: `tl.fill(model, ["the c_t", "a __ of"], steps=32)`.

    A text is as long as its template, and is drawn as if it were alone.  `settings` are those of `tl.sample`.
    """
    if model.tokenizer is None:
        raise ValueError("templates need a model with a tokenizer; pass given=(tokens, flags) to tl.sample instead")
    texts = [templates] if isinstance(templates, str) else templates
    rows = [template_cells(model.tokenizer, text) for text in texts]
    sampler = Sampler.parse(settings.pop("sampler", "ancestral"), **settings)
    seeds = [derive_seed(seed, "row", row) for row in range(len(rows))]
    drawn = draw_each(sampler, model, rows, [len(cells) for cells in rows], seeds)
    return [model.tokenizer.decode(tokens) for tokens, _ in drawn]


def draw_each(
    sampler: Sampler,
    model: DiffusionModel,
    rows: Sequence[Cells],
    lengths: Sequence[int | None],
    seeds: Sequence[int],
    on_step: OnStep | None = None,
    until: Until | None = None,
) -> list[tuple[list[int], int]]:
    """Draw a sequence for each row of given cells, those of one length as a batch; return each with its evaluations."""
    found: dict[int, tuple[list[int], int]] = {}
    for length in dict.fromkeys(lengths):
        mine = [row for row, own in enumerate(lengths) if own == length]
        generator = RowGenerators([seeds[row] for row in mine], model.device or torch.device("cpu"))
        cells = [rows[row] for row in mine]
        given = None
        if any(cells):  # else nothing is given, which also a model of unknown length can be asked
            tokens, flags = given_tokens(cells, length or max(map(len, cells)))
            given = tokens.to(generator.device), flags.to(generator.device)
        samples = sampler.run(
            model, len(mine), length=length, given=given, generator=generator, on_step=on_step, until=until
        )
        found |= zip(mine, zip(samples.tokens.tolist(), samples.evaluations.tolist(), strict=True), strict=True)
    return [found[row] for row in range(len(rows))]

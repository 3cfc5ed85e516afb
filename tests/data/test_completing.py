"""Given beginnings and spans of text: their law, and that a model trained on them honours a prompt."""

import json
import math
import random
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tokenloom.data.base import Dataset, given_positions
from tokenloom.data.decoder import numbers

LENGTH = 6


def test_the_blank_is_an_interval_with_the_law_of_its_description() -> None:
    """Exact probabilities of all 21 intervals; one multinomial test at a false-alarm rate of 1e-4."""
    rows, share = 200_000, 0.4
    flags = given_positions(rows, LENGTH, share, torch.Generator().manual_seed(0))
    law = {(0, LENGTH - 1): 1 - share}
    for i in range(LENGTH):
        law[i, LENGTH - 1] = law.get((i, LENGTH - 1), 0.0) + share / 2 / LENGTH
        for j in range(LENGTH):
            ends = min(i, j), max(i, j)
            law[ends] = law.get(ends, 0.0) + share / 2 / LENGTH**2
    assert math.isclose(sum(law.values()), 1)
    statistic = 0.0
    position = torch.arange(LENGTH)
    for (first, last), probability in law.items():
        blank = (position >= first) & (position <= last)
        seen = int((flags == ~blank).all(1).sum())
        statistic += (seen - rows * probability) ** 2 / (rows * probability)
    assert statistic < 52.4  # chi-square with 20 degrees of freedom, upper 1e-4
    assert not bool(flags.all(1).any())


@pytest.mark.parametrize("share", [0.0, 0.999])
def test_held_out_rows_have_nothing_given(share: float) -> None:
    table = torch.arange(4 * LENGTH).view(4, LENGTH) % 5
    data = Dataset("rows", 5, table, table, "", numbers(5), given=share)
    generator = torch.Generator().manual_seed(0)
    assert data.draw("valid", torch.arange(4), generator)[1] is None
    given = data.draw("train", torch.arange(4), generator)[1]
    assert (given is None) == (share == 0) == (not data.outline.given)


@pytest.mark.parametrize("method", ["udm", "mdm", "audm"])
def test_a_text_model_honours_a_prompt(method: str, tmp_path: Path, shell: Shell) -> None:
    """Rows of one letter, so that the first says all."""
    letters = random.Random(0).choices("abcd", k=1000)
    (tmp_path / "text.txt").write_text("".join(8 * letter for letter in letters))
    size = "--network.width 32 --network.depth 1 --network.heads 2 --optimiser.batch 32 --optimiser.lr 0.01 --fit"
    options = f"--method {method} --data.length 8 --max-steps 120 {size}".split()
    run = str(tmp_path / "run")
    shell("train", "--recipe", "chars", "--data.path", str(tmp_path / "text.txt"), "--out", run, *options)
    model, rows = tl.load(run), torch.arange(4)[:, None].expand(4, 8).repeat(8, 1)
    flags = (torch.arange(8) < 3).expand(len(rows), -1)
    wrong = torch.where(flags, (rows + 1) % 4, rows)
    true, other = (
        tl.nelbo(model, x_0, given=flags, generator=torch.Generator().manual_seed(0)).per_token for x_0 in (rows, wrong)
    )
    assert true < 0.35 < other - true
    drawn = shell("sample", run, "--prompt", "ccc", "--num", "8", "--steps", "8", "--json")
    assert "beware" not in drawn.err
    assert sum(sample.count("c") for sample in json.loads(drawn.out)["samples"]) > 8 * 6

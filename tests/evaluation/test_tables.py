"""A table for a paper: seeds are one row, ± is what the caption says, and bold is the lowest of what is comparable."""

import csv
import io
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.helpers import Shell
from tests.training.helpers import saved, tiny
from tokenloom.data.base import Dataset
from tokenloom.data.decoder import numbers
from tokenloom.evaluation.held_out import Fingerprint, HeldOut
from tokenloom.evaluation.tables import Entry, render, rows_of
from tokenloom.evaluation.zero_shot import Cell
from tokenloom.objectives.likelihood import Likelihood

ROWS = torch.zeros(2, 4, dtype=torch.int64)


def cell(nats: float, error: float = 0.01, digest: str = "same", exact: bool = False, characters: int = 16) -> Cell:
    mark = Fingerprint(digest, 2, 8, 4, None, None, None)
    held = HeldOut(Dataset("data", 3, ROWS, ROWS, digest, numbers(3)), mark)
    values = torch.full((2,), 4 * nats, dtype=torch.float64)
    return Cell(held, Likelihood(4 * nats, 4 * error, nats, error, 2, 8, 1, "bound", exact, values), characters)


def entry(name: str, method: str, seed: int, cells: dict[str, Cell], **config: Any) -> Entry:
    return Entry(name, (method, "ce", "LeaveOneOut"), {"method": method} | config, seed, cells)


TWO = [
    entry("a", "udm", 1, {"one": cell(1.0), "two": cell(2.0)}),
    entry("b", "udm", 2, {"one": cell(1.2), "two": cell(2.2)}),
    entry("c", "mdm", 1, {"one": cell(1.3, 0.02), "two": cell(1.5, math.nan)}),
]


def test_a_row_of_seeds_has_their_mean_and_standard_deviation_and_one_run_its_error() -> None:
    first, second = rows_of(TWO, "perplexity")
    found = [math.exp(1.0), math.exp(1.2)]
    assert first.runs == ("a", "b")
    assert first.figures["one"].mean == pytest.approx(sum(found) / 2)
    assert first.figures["one"].spread == pytest.approx(abs(found[0] - found[1]) / math.sqrt(2))
    assert (first.figures["one"].count, second.figures["one"].count) == (2, 1)
    assert second.figures["one"].spread == pytest.approx(math.exp(1.3) * 0.02)
    assert [row.figures["one"].best for row in (first, second)] == [True, False]
    assert [row.figures["two"].best for row in (first, second)] == [False, True]
    nats = rows_of(TWO, "nats")[0].figures["one"]
    assert (nats.mean, nats.spread) == pytest.approx((1.1, statistics.stdev([1.0, 1.2])))
    assert rows_of(TWO, "characters")[0].figures["one"].mean == pytest.approx(1.1 * 8 / 16)


def test_markdown_and_latex_hold_the_same_figures_and_say_what_the_spread_is() -> None:
    markdown, latex = (render(TWO, form, "nats") for form in ("markdown", "latex"))
    assert "| udm | ce | LeaveOneOut | 2 | **1.1000** ± 0.1414 | 2.1000 ± 0.1414 |" in markdown
    assert "| mdm | ce | LeaveOneOut | 1 | 1.3000 ± 0.0200 | **1.5000** |" in markdown  # one sequence has no error
    assert r"udm & ce & LeaveOneOut & 2 & \textbf{1.1000} $\pm$ 0.1414 & 2.1000 $\pm$ 0.1414 \\" in latex
    assert "upper bounds. ± is the standard deviation between n runs of different seeds. " in markdown
    assert "± is the standard error of one run's estimate where n = 1." in markdown
    assert r"$\pm$ is the standard deviation between n runs" in latex
    assert r"\begin{tabular}{lllrrr}" in latex
    alone = render(TWO[2:], "markdown", "nats")
    assert "deviation" not in alone
    assert "estimate." in alone


def test_what_latex_reads_as_a_command_is_escaped() -> None:
    odd = [entry("a", "mdm:mask_id=2", 1, {"50%_&#$~^{}\\": cell(1.0)})]
    text = render(odd, "latex", "nats")
    assert r"mdm:mask\_id=2 &" in text
    assert r"50\%\_\&\#\$\textasciitilde{}\textasciicircum{}\{\}\textbackslash{}" in text


def test_every_figure_is_a_line_of_the_csv_with_all_its_digits() -> None:
    lines = list(csv.DictReader(io.StringIO(render(TWO, "csv", "nats"))))
    assert [(line["method"], line["data"], line["n"]) for line in lines] == [
        ("udm", "one", "2"), ("udm", "two", "2"), ("mdm", "one", "1"), ("mdm", "two", "1")
    ]  # fmt: skip
    assert float(lines[0]["mean"]) == statistics.fmean([1.0, 1.2])
    assert lines[0]["runs"] == "a b"
    assert [line["spread_is"] for line in lines[::2]] == [
        "standard deviation between seeds", "standard error of the estimate"
    ]  # fmt: skip
    assert [line["best"] for line in lines] == ["True", "False", "False", "True"]
    assert lines[3]["spread"] == ""


def test_figures_of_different_tokens_have_no_best_unless_they_are_per_character() -> None:
    other = [*TWO[:2], replace(TWO[2], cells={"one": cell(1.3, digest="other"), "two": cell(1.5)})]
    assert not any(row.figures["one"].best for row in rows_of(other, "nats"))
    assert any(row.figures["two"].best for row in rows_of(other, "nats"))
    assert "Nothing is bold under one: its rows were scored on different tokens." in render(other, "markdown", "nats")
    assert any(row.figures["one"].best for row in rows_of(other, "characters"))


def test_figures_that_print_alike_are_both_best() -> None:
    tied = [entry("a", "udm", 1, {"one": cell(1.00001)}), entry("b", "mdm", 1, {"one": cell(1.00002)})]
    assert [row.figures["one"].best for row in rows_of(tied, "nats")] == [True, True]


def test_a_figure_without_another_is_not_the_best() -> None:
    assert [row.figures["one"].best for row in rows_of(TWO[:1], "nats")] == [False]


def test_rows_of_one_method_are_told_apart_by_the_options_that_differ() -> None:
    deep = [entry(name, "udm", 1, {"one": cell(1.0)}, depth=depth, width=8) for name, depth in (("a", 2), ("b", 4))]
    assert [row.labels[-1] for row in rows_of(deep, "nats")] == ["depth=2", "depth=4"]
    assert "| Method | Loss | Predicts | Options | n | one |" in render(deep, "markdown", "nats")


def test_the_same_seed_twice_and_a_unit_without_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="a, again have the same config, and two of them the same seed"):
        rows_of([TWO[0], replace(TWO[0], name="again")], "nats")
    silent = [entry("a", "udm", 1, {"one": cell(1.0, characters=0)})]
    with pytest.raises(ValueError, match="none of these data sets has a figure in characters"):
        render(silent, "markdown", "characters")
    exact = [entry("z", "ar", 1, {"one": cell(1.0, exact=True)}), TWO[0]]
    assert "upper bounds (exact for ar)." in render(exact, "markdown", "nats")


def test_one_command_makes_the_table_of_several_runs_data_sets_and_seeds(tmp_path: Path, shell: Shell) -> None:
    for name, method, seed in (("u1", "udm", 1), ("u2", "udm", 2), ("m1", "mdm", 1)):
        config = tiny(tmp_path / name, method=method, predicts=None, objective=None, run={"seed": seed})
        saved(config, tmp_path / name, 0.2 * seed)
    runs, few = [str(tmp_path / name) for name in ("u1", "u2", "m1")], ["--sequences", "8", "--samples", "1"]
    out = tmp_path / "here"
    said = shell("evaluate", *runs, *few, "--table", "markdown", "--unit", "nats", "--out", str(out))
    assert said.out == (out / "table.md").read_text()
    lines = said.out.splitlines()
    assert lines[0].startswith("| Method | Loss | Predicts | n | markov chain of 5 tokens")
    assert lines[2].startswith("| udm | ce | LeaveOneOut | 2 | ")
    assert lines[3].startswith("| mdm | nelbo | Denoiser | 1 | ")
    assert "Held-out likelihood" in said.err
    assert "the same config" in shell.refusal("evaluate", *runs, str(tmp_path / "u1" / "model"), *few, "--table", "csv")

"""`tokenloom probe`: a figure, its numbers and heat maps, from saved runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.cli.helpers import Shell
from tests.training.helpers import saved, tiny
from tokenloom.cli import main
from tokenloom.cli.probe import draw_heat_maps
from tokenloom.data.digits import DigitsSource
from tokenloom.evaluation.probe import posterior_maps

STEPS = ["--steps", "4", "--grid", "uniform"]
FAST = ["--sequences", "6", "--positions", "2", "--substitutes", "3", "--times", "0.2", "0.8"]


matplotlib = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed")


def random_run(folder: str, **changes: Any) -> None:
    saved(tiny(Path(folder), **changes), Path(folder), std=0.3)


def pixels(path: str) -> Tensor:
    return torch.from_numpy(matplotlib.imread(path).copy())


def test_runs_are_compared_in_one_figure_and_a_hollow_one_reads_0(shell: Shell) -> None:
    random_run("plain")
    random_run("hollow", network={"kind": "hollow"})
    table = shell("probe", "plain", "hollow", *FAST).out
    assert re.search(r"t ┃ +plain ┃ +hollow", table)
    for t in ("0.2", "0.8"):  # at 80 columns
        assert re.search(rf"{t} │ 0.\d{{4}} ± 0.\d{{4}} │ 0.0000 ± 0.0000", table)
    found = json.loads(Path("plain/evaluation/probe.json").read_text())
    assert found["settings"]["substitutes"] == 3
    assert [item["t"] for item in found["runs"]["plain"]] == [0.2, 0.8]
    assert all(item["total_variation"] > item["total_variation_error"] > 0 for item in found["runs"]["plain"])
    assert all(item["total_variation"] == item["divergence"] == 0 for item in found["runs"]["hollow"])
    picture = pixels("plain/evaluation/probe.png")
    assert picture.shape[1] > 1000
    assert picture[..., :3].std() > 0.01
    assert sorted(path.name for path in Path("plain/evaluation").iterdir()) == ["probe.json", "probe.png"]


def test_the_states_of_samples_are_probed_drawn_and_kept(shell: Shell) -> None:
    random_run("plain")
    random_run("hollow", network={"kind": "hollow"})
    printed = shell("probe", "plain", "hollow", *FAST, "--along-samples", *STEPS, "--seed", "5").out
    assert "along samples" in printed
    folder = Path("plain/evaluation")
    found = json.loads((folder / "probe-along-samples.json").read_text())
    assert [item["t"] for item in found["runs"]["plain"]] == [0.75, 0.25]
    assert all(item["total_variation"] > 0 for item in found["runs"]["plain"])
    assert all(item["total_variation"] == 0 for item in found["runs"]["hollow"])
    assert found["settings"]["sampler"]["steps"] == 4
    assert pixels(str(folder / "probe-along-samples.png"))[..., :3].std() > 0.01
    lines = [json.loads(line) for line in (folder / "probe-samples-plain.jsonl").read_text().splitlines()]
    drawn = shell.json("sample", "plain", "--num", "6", *STEPS, "--seed", "5")
    assert [line["tokens"] for line in lines] == drawn["tokens"]
    assert [state["t"] for state in lines[0]["states"]] == [0.75, 0.25]
    assert "steps must be" in shell.refusal("probe", "plain", *FAST, "--along-samples", "--steps", "0")


def test_digits_get_heat_maps() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    random_run("digits", data=DigitsSource())
    main(["probe", "digits", *FAST, "--out", "here"])
    assert sorted(path.name for path in Path("here").iterdir()) == ["heat-maps-digits.png", "probe.json", "probe.png"]


def test_heat_maps_show_both_posteriors_and_the_news_of_a_token(generator: torch.Generator) -> None:
    """Of an exact model on 2 x 2 pixels, whatever it predicts, against the oracles of both representations."""
    p0, process = brute.random_p0(3, 4), tl.Uniform(3)
    image = torch.tensor([0, 2, 1, 0])
    times = (0.3, 0.7)
    maps = posterior_maps(tl.Oracle(p0, process, predicts=tl.Denoiser), image, times, generator).flatten(2)
    t = torch.tensor(times, dtype=torch.float64)
    noisy = tl.Noisy((maps[0] * 2).round().long(), t, process.alpha(t))
    oracles = [tl.Oracle(p0, process, predicts=kind) for kind in (tl.LeaveOneOut, tl.Denoiser)]
    laws = [oracle.predict(noisy).log_probs.exp() for oracle in oracles]
    grey = torch.tensor([0, 0.5, 1], dtype=torch.float64)
    entropy = [torch.special.entr(law).sum(-1) for law in laws]
    for found, expected in zip(maps[1:], (laws[0] @ grey, laws[1] @ grey, entropy[0] - entropy[1]), strict=True):
        torch.testing.assert_close(found, expected)
    draw_heat_maps(maps.view(4, 2, 2, 2), times, Path("maps.png"), "an oracle")
    assert pixels("maps.png")[..., :3].std() > 0.01
    with pytest.raises(ValueError, match="square images, got 3 pixels"):
        posterior_maps(tl.Oracle(p0, process), image[:3], (0.5,))


def test_what_cannot_be_probed_gets_a_sentence(shell: Shell) -> None:
    random_run("masked", method="mdm", predicts=None, objective=None)
    random_run("uniform")
    for arguments, sentence in (
        ([], "name at least one run folder"),
        (["masked", *FAST], "the denoiser of this model has no leave-one-out posterior there to probe; name runs"),
        (["uniform", "--times", "0"], "times must be in (0, 1]"),
        (["uniform", "--substitutes", "1"], "substitutes must be at least 2, got 1"),
    ):
        assert sentence in shell.refusal("probe", *arguments)

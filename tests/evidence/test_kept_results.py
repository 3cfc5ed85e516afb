"""The page is what the kept results say, and those are results of the runs that are defined now."""

from pathlib import Path

from evidence import command
from evidence.claim import SEEDS
from evidence.claims import CLAIMS
from evidence.measures import MEASURES
from evidence.page import render
from evidence.results import collect, read_result
from evidence.runs import Place, Run

PLACE = Place(Path("nowhere"), "full", Path("text8"))
NEEDED = sorted(
    {(Run(setting, arm, seed), measure)
     for claim in CLAIMS.values() for seed in SEEDS for setting, arm, measure in claim.needs(seed)}
)  # fmt: skip


def test_every_figure_is_kept_with_the_settings_and_the_training_of_now() -> None:
    for run, measure in NEEDED:
        record = read_result(run, command.KEPT)
        assert record["measures"][measure]["settings"] == MEASURES[measure].settings(run, PLACE), (run, measure)
        if run.setting != "softmax":
            kept, now = record["run"]["training"], PLACE.config(run)
            assert record["run"]["trained_steps"] == now.max_steps
            assert kept["optimiser"]["batch"] == now.optimiser.batch
            assert kept["run"]["seed"] == run.seed
            assert len(record["run"]["weights_sha256"]) == 64


def test_the_page_is_what_the_kept_results_say() -> None:
    claims = list(CLAIMS.values())
    closing = command.CLOSING.read_text(encoding="utf-8")
    rendered = render(claims, collect(claims, command.KEPT), "pictures/evidence", closing)
    assert (command.DOCS / "evidence.md").read_text(encoding="utf-8") == rendered
    assert {path.stem for path in (command.DOCS / "pictures" / "evidence").glob("*.svg")} == set(CLAIMS)

"""The page is what the kept results say, and those are results of the runs that are defined now."""

from pathlib import Path

from evidence import command
from evidence.claims import CLAIMS
from evidence.measures import MEASURES
from evidence.page import render
from evidence.results import collect, read_result, trains
from evidence.runs import Place, Run
from evidence.settings import MOST

PLACE = Place(Path("nowhere"), "full", Path("stories"))
NEEDED = sorted(
    {(Run(setting, arm, seed), measure, claim.pending)
     for claim in CLAIMS.values() for seed in MOST for setting, arm, measure in claim.needs(seed)}
)  # fmt: skip


def test_every_figure_is_kept_with_the_settings_and_the_training_of_now() -> None:
    for run, measure, pending in NEEDED:
        record = read_result(run, command.KEPT)
        if pending and measure not in record["measures"]:
            continue
        assert record["measures"][measure]["settings"] == MEASURES[measure].settings(run, PLACE), (run, measure)
        if trains(run):
            kept, now = record["run"]["training"], PLACE.config(run)
            assert record["run"]["trained_steps"] == now.max_steps
            assert kept["optimiser"]["batch"] == now.optimiser.batch
            assert kept["optimiser"]["lr"] == now.optimiser.lr
            assert kept["run"]["seed"] == run.seed
            assert len(record["run"]["weights_sha256"]) == 64


def test_a_claim_is_pending_while_a_result_is_missing_and_no_longer() -> None:
    for claim in CLAIMS.values():
        needs = [(Run(setting, arm, seed), name) for seed in MOST for setting, arm, name in claim.needs(seed)]
        missing = [run for run, name in needs if name not in read_result(run, command.KEPT)["measures"]]
        assert claim.pending == bool(missing), claim.name


def test_the_page_is_what_the_kept_results_say() -> None:
    claims = list(CLAIMS.values())
    closing = command.CLOSING.read_text(encoding="utf-8")
    rendered = render(claims, collect(claims, command.KEPT), "pictures/evidence", closing)
    assert (command.DOCS / "evidence.md").read_text(encoding="utf-8") == rendered
    assert {path.stem for path in (command.DOCS / "pictures" / "evidence").glob("*.svg")} == set(CLAIMS)

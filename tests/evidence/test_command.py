"""Every claim from end to end at the scale that means nothing, and what the command does with wrong or old input."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from jaxtyping import config

from evidence import command, pilot
from evidence.claims import CLAIMS
from evidence.results import is_measured, measure_tasks, read_result, result_file
from evidence.runs import Place, Run, is_trained


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place in which all claims were run, with a text of its own."""
    folder, text = tmp_path_factory.mktemp("evidence"), tmp_path_factory.mktemp("text")
    words = "the loom weaves a thread of light and the thread weaves the loom "
    (text / "train.txt").write_text(60 * words)
    (text / "valid.txt").write_text(20 * words[::-1])
    config.update("jaxtyping_disable", True)  # the fixture as_a_user belongs to one test
    try:
        command.evidence(scale="tiny", out=folder, stories=text)
    finally:
        config.update("jaxtyping_disable", False)
    return Place(folder, "tiny", text)


def test_every_claim_runs_from_end_to_end(study: Place) -> None:
    page = (study.folder / "evidence.md").read_text()
    for name in CLAIMS:
        assert f"## {name.upper()}. " in page
        assert (study.folder / "pictures" / f"{name}.svg").read_text().startswith("<?xml")
    assert "not measured" not in page


def test_what_is_measured_is_not_measured_again(
    study: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in study.folder.rglob("*.json")}
    monkeypatch.setattr(command, "write_page", lambda *arguments: None)  # the same pictures take longest
    command.evidence(scale="tiny", out=study.folder, stories=study.stories)
    assert {path: path.stat().st_mtime_ns for path in study.folder.rglob("*.json")} == before
    assert "training" not in capsys.readouterr().err


def test_a_result_says_what_the_run_was_and_names_no_folder(study: Place) -> None:
    record = read_result(Run("stories", "udm-loo-ce", 1), study.folder / "results")
    assert record["run"]["weights_sha256"]
    assert record["run"]["data_fingerprint"]
    assert record["run"]["training"]["max_steps"] == 4
    assert str(study.stories) not in json.dumps(record)
    assert str(study.folder) not in json.dumps(record)


def test_other_settings_other_weights_and_lost_files_are_measured_again(study: Place, tmp_path: Path) -> None:
    task = (Run("chain", "mdm", 1), "bound")
    measure_tasks([task], study, tmp_path)
    path = result_file(task[0], tmp_path)
    first = json.loads(path.read_text())
    assert is_measured(task, study, tmp_path)
    for change in ("settings", "weights"):
        altered = json.loads(path.read_text())
        if change == "settings":
            altered["measures"]["bound"]["settings"]["rows"] = 1
        else:
            altered["run"]["weights_sha256"] = "0" * 64
        path.write_text(json.dumps(altered))
        assert not is_measured(task, study, tmp_path)
        measure_tasks([task], study, tmp_path)
        assert json.loads(path.read_text()) == first
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"mdm-1.json does not hold measurements; delete it"):
        is_measured(task, study, tmp_path)


def test_a_figure_does_not_depend_on_the_batch(study: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from evidence.measures import MEASURES, neighbours

    run = Run("chain", "mdm", 1)
    whole = MEASURES["neighbours: redrawn times"].of(run, study)
    monkeypatch.setattr(neighbours, "BATCH", 3)
    again = MEASURES["neighbours: redrawn times"].of(run, study)
    assert again["6"]["mudm"] == pytest.approx(whole["6"]["mudm"], abs=1e-12)


def test_an_interrupted_run_is_not_taken_for_a_trained_one(study: Place, tmp_path: Path) -> None:
    run, copy = Run("chain", "mdm", 1), replace(study, folder=tmp_path)
    assert is_trained(run, study)
    assert not is_trained(run, copy)
    shutil.copytree(study.run_folder(run), copy.run_folder(run))
    config = copy.run_folder(run) / "model" / "config.json"
    record = json.loads(config.read_text())
    record["about"]["step"] -= 1  # a signal ends a run with a model of the step it reached
    config.write_text(json.dumps(record))
    assert not is_trained(run, copy)


def test_wrong_input_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no claim 'c14'; did you mean"):
        command.evidence(("c14",))
    with pytest.raises(ValueError, match="--workers must be at least 1, got 0"):
        command.evidence(workers=0)
    with pytest.raises(ValueError, match=r"stories need its text: .* train\.txt and valid\.txt by --stories"):
        command.evidence(("c1",), scale="tiny", out=tmp_path)
    with pytest.raises(ValueError, match="the pilots need the text of stories"):
        pilot.main(tmp_path)


def test_what_decides_a_claim_is_measured_before_what_stands_beside() -> None:
    study = command.Study([CLAIMS["c3"]], Place(Path("nowhere"), "tiny"), Path("nowhere"), ("chain",), 1, "local")
    arms = [run.arm for run, _ in study.tasks()]
    assert max(map(arms.index, ("audm-gated", "mdm", "max-coupling"))) < min(
        map(arms.index, ("audm", "mdm-module", "ar"))
    )

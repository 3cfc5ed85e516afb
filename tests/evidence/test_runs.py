"""The networks of a comparison have equal budgets."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evidence import pilot
from evidence.claims import CLAIMS
from evidence.reporting import Validation, validations
from evidence.results import trains
from evidence.runs import ARMS, LIKELIHOODS, Place, Run
from evidence.settings import MOST, SEEDS, SETTINGS, setting
from tokenloom.nn.size import count_parameters
from tokenloom.training.build import task_of
from tokenloom.training.config import TrainConfig, differences

NEEDED = sorted(set().union(*(claim.needs(MOST[0]) for claim in CLAIMS.values())))
VOCABULARY = {"stories": 2048}
OWN_RATE = ("chain", "stories")
"""Settings whose arms have a learning rate that a pilot chose."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place at which a pilot chose the first rate of every arm, or the second one for AUDM."""
    path = tmp_path_factory.mktemp("pilot") / "pilot.json"
    chosen = {arm: {"chosen": 4e-3 if arm.startswith("audm") else 2e-3} for arm in LIKELIHOODS}
    path.write_text(json.dumps({"chain": chosen, "stories": chosen}))
    return Place(Path("nowhere"), "full", Path("stories"), path)


def configs(name: str, place: Place) -> dict[str, TrainConfig]:
    arms = sorted({arm for where, arm, _ in NEEDED if where == name and trains(Run(name, arm, 1))})
    return {arm: place.config(Run(name, arm, 1)) for arm in arms}


def sizes(name: str, place: Place) -> dict[str, float]:
    counts = {}
    for arm, config in configs(name, place).items():
        outline = config.data.outline()
        known = replace(outline, vocab_size=outline.vocab_size or VOCABULARY[name])
        counts[arm] = count_parameters(config.network, task_of(config, known))
    assert len(counts) > 2
    return counts


@pytest.mark.parametrize(("name", "larger", "fewer"), [("chain", 23, 52), ("stories", 10, 20)])
def test_parameter_counts_differ_as_the_page_says(name: str, larger: int, fewer: int, place: Place) -> None:
    counts = sizes(name, place)
    relative = {arm: round(100 * (count / counts["udm-loo-ce"] - 1)) for arm, count in counts.items()}
    for arm in LIKELIHOODS:
        module = larger if arm.startswith("audm") or arm == "mdm-module" else 0
        timeless = fewer if arm in ("mdm", "mdm-module", "ar") else 0
        if arm == "any":
            assert f"{-relative[arm]}%" in CLAIMS["c11"].limits
        else:
            assert relative[arm] == pytest.approx(module - timeless, abs=1), arm
    said = " ".join(CLAIMS["c3"].limits.split())
    assert f"{larger}%" in said
    assert f"{fewer}%" in said


def test_the_hollow_network_has_as_many_parameters_as_the_others(place: Place) -> None:
    counts = sizes("chain", place)
    assert counts["hollow"] == pytest.approx(counts["udm-loo-ce"], rel=0.05)


@pytest.mark.parametrize("name", SETTINGS)
def test_runs_differ_in_nothing_but_the_method_and_the_form_of_the_network(name: str, place: Place) -> None:
    found = configs(name, place)
    may = ("method", "predicts", "objective", "out", "network.")
    own = (*may, "optimiser.lr") if name in OWN_RATE else may
    for arm, config in found.items():
        if ARMS[arm].longer > 1:
            continue
        changed = [item.split(" ")[0] for item in differences(found["udm-loo-ce"].record(), config.record())]
        assert not [item for item in changed if not item.startswith(own)], changed
        assert config.max_minutes is None  # equal steps, whatever the machine


def test_every_arm_has_the_rate_that_a_pilot_chose_for_it(place: Place) -> None:
    assert place.config(Run("chain", "audm-gated", 1)).optimiser.lr == 4e-3
    assert place.config(Run("chain", "mdm", 1)).optimiser.lr == 2e-3
    assert place.config(Run("chain", "any-double", 1)).optimiser.lr == place.config(Run("chain", "any", 1)).optimiser.lr
    without = replace(place, pilot=place.pilot.with_name("none.json"))
    assert without.config(Run("long", "udm-loo-ce", 1)).optimiser.lr == 2e-3
    with pytest.raises(ValueError, match=r"none.json has no learning rate for chain/mdm; python -m evidence\.pilot"):
        without.config(Run("chain", "mdm", 1))


def test_a_pilot_tries_every_rate_on_a_seed_of_its_own_and_keeps_the_better(tmp_path: Path) -> None:
    place = Place(tmp_path, "tiny", pilot=tmp_path / "pilot.json")
    tried = pilot.trials("chain", place, ["mdm"])
    assert len(tried) == 2
    assert pilot.SEED not in SEEDS["chain"]
    assert {pilot.trial_config(trial, place).run.seed for trial in tried} == {pilot.SEED}
    assert pilot.train_trials(tried, place) == 2
    assert pilot.train_trials(tried, place) == 0  # resumed: nothing is missing
    chosen = pilot.choose("chain", place, ["mdm"])
    kept = json.loads(place.pilot.read_text())["chain"]["mdm"]
    assert kept["bounds"][f"{chosen['mdm']:g}"] == min(kept["bounds"].values())
    assert replace(place, scale="full").rate(Run("chain", "mdm", 1)) == chosen["mdm"]


def test_validations_are_read_as_they_were_made_last(tmp_path: Path) -> None:
    lines = [
        {"step": 1, "loss": 2.0},
        {"step": 2, "valid_nats": 3.0},
        {"step": 2, "valid_groups": [3.0]},
        {"step": 2, "valid_nats": 1.0},
        {"step": 2, "valid_groups": [1.0]},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert validations(tmp_path) == [Validation(2, 1.0, (1.0,))]


def test_a_setting_or_an_arm_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no setting 'digits'; the settings are chain, stories, long, sudoku"):
        setting("digits", "full")
    with pytest.raises(ValueError, match=r"there is no arm 'udm'; did you mean"):
        Place(Path("nowhere")).config(Run("long", "udm", 1))

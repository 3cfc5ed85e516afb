"""The networks of a comparison have equal budgets."""

from dataclasses import replace
from pathlib import Path

import pytest

from evidence.claim import SEEDS
from evidence.claims import CLAIMS
from evidence.runs import WITHIN, Place, Run
from evidence.settings import SETTINGS, setting
from tokenloom.nn.size import count_parameters
from tokenloom.training.build import task_of
from tokenloom.training.config import TrainConfig, differences

NEEDED = sorted(set().union(*(claim.needs(SEEDS[0]) for claim in CLAIMS.values())))
TEXT8_CHARACTERS = 27


def arms_of(name: str) -> list[str]:
    return sorted({arm for where, arm, _ in NEEDED if where == name})


def configs(name: str) -> dict[str, TrainConfig]:
    place = Place(Path("nowhere"), "full", Path("text8"))
    return {arm: place.config(Run(name, arm, 1)) for arm in arms_of(name)}


@pytest.mark.parametrize("name", SETTINGS)
def test_parameter_counts_agree_within_five_percent(name: str) -> None:
    counts = {}
    for arm, config in configs(name).items():
        outline = config.data.outline()
        counts[arm] = count_parameters(
            config.network, task_of(config, replace(outline, vocab_size=outline.vocab_size or TEXT8_CHARACTERS))
        )
    assert len(counts) > 2
    assert all(abs(count / counts["udm-loo-ce"] - 1) <= WITHIN for count in counts.values()), counts


@pytest.mark.parametrize("name", SETTINGS)
def test_runs_differ_in_nothing_but_the_method_and_the_form_of_the_network(name: str) -> None:
    found = configs(name)
    may = ("method", "predicts", "objective", "out", "network.")
    for config in found.values():
        changed = [item.split(" ")[0] for item in differences(found["udm-loo-ce"].record(), config.record())]
        assert not [item for item in changed if not item.startswith(may)], changed
        assert config.max_minutes is None  # equal steps, whatever the machine


def test_a_setting_or_an_arm_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="there is no setting 'digits'; the settings are markov, text8, sudoku"):
        setting("digits", "full")
    with pytest.raises(ValueError, match=r"there is no arm 'udm'; did you mean"):
        Place(Path("nowhere")).config(Run("markov", "udm", 1))

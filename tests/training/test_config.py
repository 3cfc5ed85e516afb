"""A config survives JSON, and a wrong key is named."""

import json
import math
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from tokenloom.training.build import resolve
from tokenloom.training.config import RECIPES, TrainConfig, differences, from_dict, recipe


@pytest.mark.parametrize("name", list(RECIPES))
def test_recipes_resolve_and_survive_json(name: str) -> None:
    for method in ("udm", "mdm", "audm", "max-coupling", "ar"):
        config = resolve(replace(recipe(name), method=method))
        again = from_dict(TrainConfig(), json.loads(json.dumps(asdict(config))))
        assert again == config
        assert differences(again, config) == []


def test_an_unknown_key_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no key optimiser[.]l; did you mean lr"):
        from_dict(TrainConfig(), {"optimiser": {"l": 1.0}})
    with pytest.raises(ValueError, match="the config has no key methd; did you mean method"):
        from_dict(TrainConfig(), {"methd": "udm"})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"optimiser": {"batch": 0}}, "--optimiser.batch must be at least 1, got 0"),
        ({"optimiser": {"accumulate": 0}}, "--optimiser.accumulate must be at least 1, got 0"),
        ({"run": {"validate_every": 0}}, "--run.validate-every must be at least 1, got 0"),
        ({"run": {"valid_rows": 0}}, "--run.valid-rows must be at least 1, got 0"),
        ({"max_steps": -1}, "--max-steps must be at least 1, got -1"),
        ({"max_minutes": -1.0}, "--max-minutes must be positive and finite, got -1"),
        ({"max_minutes": math.nan}, "--max-minutes must be positive and finite, got nan"),
        ({"optimiser": {"lr": -1.0}}, "--optimiser.lr must be positive and finite, got -1"),
        ({"optimiser": {"clip": math.inf}}, "--optimiser.clip must be positive and finite, got inf"),
        ({"optimiser": {"ema": 1.0}}, "--optimiser.ema must be in [0, 1), got 1"),
        ({"floor": 2.0}, "--floor must be in [0, 1), got 2"),
        ({"method": "ar", "predicts": "score"}, "so leave out --predicts, got score"),
        ({"method": "mdm", "predicts": "score", "schedule": "geometric"}, "PriorTerm"),
        ({"method": "audm", "predicts": "score"}, "ScoreEntropy is not a bound for AbsorbingUniform"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        resolve(from_dict(recipe("markov"), values))

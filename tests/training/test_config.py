"""A config survives JSON, and a wrong key is named."""

import json
from dataclasses import asdict, replace

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

"""A config survives JSON, and whatever is unknown in one is named with the nearest known name."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenloom.data.markov import MarkovSource
from tokenloom.nn.base import NETWORKS
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, differences, from_record, read_config
from tokenloom.training.methods import methods
from tokenloom.training.recipes import RECIPES, recipe

Record = dict[str, Any]


@pytest.mark.parametrize("name", list(RECIPES))
def test_recipes_resolve_and_survive_json(name: str) -> None:
    for method in methods():
        config = resolve(replace(recipe(name), method=method))
        assert from_record(json.loads(json.dumps(config.record()))) == config


def test_differences_are_named_with_both_values() -> None:
    config = recipe("markov")
    record, other = config.record(), replace(config, floor=0.25, optimiser=replace(config.optimiser, lr=1.0)).record()
    assert differences(record, record) == []
    assert differences(record, other) == ["floor (0.001 -> 0.25)", "optimiser.lr (0.001 -> 1.0)"]
    assert differences(record, record | {"data": {"kind": "text"}}) == ["data.kind (markov -> text)"]


def test_a_config_that_leaves_options_out_has_their_defaults() -> None:
    assert from_record({"format": 2}) == TrainConfig()
    shorter = from_record({"format": 2, "data": {"kind": "markov", "length": 9}, "optimiser": {"lr": 1}})
    assert shorter.data == MarkovSource(length=9)
    assert shorter.optimiser.lr == 1
    assert shorter.network == TransformerOptions()


WRONG: list[tuple[str, Any, str]] = [
    ("format", 3, "the config has format 3, and this version reads format 2; upgrade tokenloom"),
    ("format", 1, "the config has format 1, and this version reads format 2; it was written by an older"),
    ("format", "two", "the config has no format number"),
    ("format", True, "the config has no format number"),
    ("methd", "udm", "the config has no option 'methd'; did you mean method?"),
    ("optimiser.l", 1.0, "the config's optimiser has no option 'l'; did you mean lr?"),
    ("run.seeds", 1, "the config's run has no option 'seeds'; did you mean seed?"),
    ("data.kind", "markv", "there is no kind of data 'markv'; did you mean markov"),
    ("data.vocab", 3, "the data source markov has no option 'vocab'; did you mean vocab_size"),
    ("data.name", "markov", "the data source markov has no option 'name'"),
    ("data.length", 0, "length must be at least 1, got 0"),
    ("network.kind", "dti", "there is no network 'dti'; did you mean dit"),
    ("network.kind", 5, "there is no network '5'"),
    ("network.dept", 3, "the config's network has no option 'dept'; did you mean depth?"),
    ("network.depth", "3", "the option depth of the config's network must be a whole number, got '3'"),
    ("method", 5, "the option method of the config must be a text, got 5"),
    ("predicts", "lo", "must be 'loo' or 'denoiser' or 'score' or null, got 'lo'"),
    ("max_steps", 1.5, "the option max_steps of the config must be a whole number or null, got 1.5"),
    ("floor", True, "the option floor of the config must be a number, got True"),
    ("run.precision", "16", "must be '32-true' or 'bf16-mixed', got '16'"),
    *(
        ("data", value, "a data source is stored as an object with its kind, got ")
        for value in ([1, 2], "markov", None)
    ),
    *(
        (part, value, f"the config's {part} must be an object, got ")
        for part in ("network", "optimiser", "run")
        for value in ([1, 2], "markov", None)
    ),
    ("", {}, "config.json is empty, it names no option"),
    ("", {"format": 2}, "config.json is empty, it names no option"),
    ("", {"recipe": "markov"}, "the config has no format number"),
    ("", [{"format": 2}], "a config is stored as an object, got "),
    ("", "markov", "a config is stored as an object, got markov"),
    ("", None, "a config is stored as an object, got None"),
]


@pytest.mark.parametrize(("option", "value", "sentence"), WRONG)
def test_a_config_of_another_kind_gets_a_sentence(option: str, value: Any, sentence: str, tmp_path: Path) -> None:
    """The value of one option is wrong, or (without its name) the whole record."""
    record, path = recipe("markov").record(), tmp_path / "config.json"
    part, _, name = option.rpartition(".")
    (record[part] if part else record)[name] = value
    path.write_text(json.dumps(record if option else value))
    with pytest.raises(ValueError, match=f"^{path} is not a usable config: .*{re.escape(sentence)}"):
        read_config(path)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"method": "udmm"}, "there is no method 'udmm'; did you mean udm"),
        ({"method": "mdm:mask=3"}, "masked has no option 'mask'; did you mean mask_id?"),
        ({"method": "hybrid:p=0.2"}, "hybrid has no option 'p'; did you mean p_uniform"),
        ({"method": "udm:nois=unigram"}, "uniform has no option 'nois'"),
        (
            {"method": "udm:noise=bigram"},
            "noise must be unigram, the counts of the data, or a noise, got 'bigram'; known are",
        ),
        ({"method": "any:noise=uniform"}, "any has no option 'noise'; did you mean noises"),
        ({"method": "any", "predicts": "denoiser"}, "takes --predicts loo and --objective ce:weight=W, got denoiser"),
        ({"method": "any", "objective": "finite-step"}, "--objective ce:weight=W, got loo and finite-step"),
        ({"method": "mdm:mask_id=x"}, "masked:mask_id must be a whole number or none, got 'x'"),
        ({"schedule": "cosin"}, "there is no schedule 'cosin'; did you mean cosine"),
        ({"schedule": "polynomial:pow=2"}, "polynomial has no option 'pow'; did you mean power?"),
        ({"objective": "nelb"}, "there is no objective 'nelb'; did you mean nelbo"),
        ({"objective": "finite-step:n=3"}, "finite-step has no option 'n'"),
        ({"objective": "prior-term"}, "there is no objective 'prior-term'; "),  # a part of bounds, not of training
        ({"optimiser": {"batch": 0}}, "--optimiser.batch must be at least 1, got 0"),
        ({"optimiser": {"accumulate": 0}}, "--optimiser.accumulate must be at least 1, got 0"),
        ({"optimiser": {"warmup": -1}}, "--optimiser.warmup must be at least 0, got -1"),
        ({"optimiser": {"halve_every": 0}}, "--optimiser.halve-every must be at least 1, got 0"),
        ({"optimiser": {"weight_decay": -0.1}}, "--optimiser.weight-decay must be in [0, inf), got -0.1"),
        (
            {"optimiser": {"lr": 0.1, "final_lr": 0.2}},
            "--optimiser.final-lr must be at most --optimiser.lr, 0.1, got 0.2",
        ),
        (
            {"optimiser": {"final_lr": 1e-5, "decay": "linear"}},
            "--optimiser.final-lr goes with --optimiser.decay cosine, but the decay is linear",
        ),
        (
            {"optimiser": {"halve_every": 3}},
            "--optimiser.halve-every goes with --optimiser.decay step, but the decay is constant",
        ),
        ({"network": {"width": 0}}, "--network.width must be at least 1, got 0"),
        ({"network": {"dropout": 1.0}}, "--network.dropout must be in [0, 1), got 1"),
        ({"data": {"rows": 1}}, "--data.rows must be at least 2, got 1"),
        ({"run": {"validate_every": 0}}, "--run.validate-every must be at least 1, got 0"),
        ({"run": {"valid_rows": 0}}, "--run.valid-rows must be at least 1, got 0"),
        ({"max_steps": -1}, "--max-steps must be at least 1, got -1"),
        ({"max_minutes": -1.0}, "--max-minutes must be positive and finite, got -1"),
        ({"max_minutes": math.nan}, "--max-minutes must be positive and finite, got nan"),
        ({"optimiser": {"lr": -1.0}}, "--optimiser.lr must be positive and finite, got -1"),
        ({"optimiser": {"clip": math.inf}}, "--optimiser.clip must be positive and finite, got inf"),
        ({"optimiser": {"ema": 1.0}}, "--optimiser.ema must be in [0, 1), got 1"),
        ({"floor": 2.0}, "--floor must be in [0, 1), got 2"),
        ({"fit": ["network.with"]}, "--fit cannot choose 'network.with'; did you mean network.width"),
        ({"method": "ar", "predicts": "score"}, "predicts the next token: leave out --predicts score"),
        ({"method": "mdm", "predicts": "score", "schedule": "geometric"}, "takes --predicts loo or denoiser, got"),
        ({"method": "audm", "predicts": "score"}, "nelbo takes --predicts loo or denoiser, got score"),
        ({"max_minutes": None}, "a run needs an end: give --max-steps or --max-minutes"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_built(values: Record, sentence: str) -> None:
    record = recipe("markov").record()
    changed = {key: record[key] | value if isinstance(value, dict) else value for key, value in values.items()}
    with pytest.raises(ValueError, match=re.escape(sentence)):
        resolve(from_record(record | changed))


def test_a_seed_must_fit_into_64_bits() -> None:
    config = recipe("markov")
    with pytest.raises(ValueError, match=rf"--run.seed must be in \[-2\^63, 2\^63\), got {2**63}"):
        resolve(replace(config, run=replace(config.run, seed=2**63)))


def test_options_of_another_kind_are_refused() -> None:
    base = recipe("markov")
    grid, transformer = NETWORKS["grid"].Options(kind="dit"), replace(base.network, kind="grid")
    for config, sentence in (
        (replace(base, network=transformer), "grid takes the options of GridOptions, got those of Trans"),
        (replace(base, network=grid), "dit takes the options of TransformerOptions, got those of GridOptions"),
        (replace(base, data=replace(base.data, kind="text")), "text takes the options of TextSource, got"),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            resolve(config)

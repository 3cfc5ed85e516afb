"""Every skeleton of docs/extending.md runs as pasted, and the part it defines does its work."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.cli.helpers import Shell
from tokenloom.cells import PROCESSES
from tokenloom.cli.registry import COMMANDS
from tokenloom.couplings import COUPLINGS
from tokenloom.data.base import SOURCES
from tokenloom.data.markov import MarkovSource
from tokenloom.evaluation.judges import JUDGES, load_judge, rate
from tokenloom.evaluation.tasks import TASKS
from tokenloom.nn import NETWORKS, Task, TransformerOptions
from tokenloom.noise import NOISES
from tokenloom.objectives import OBJECTIVES
from tokenloom.samplers import CORRECTORS, PREDICTORS, STOPS
from tokenloom.schedules import SCHEDULES
from tokenloom.support.registry import Directory
from tokenloom.training.build import build_model, resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.recipes import RECIPES, recipe
from tokenloom.web.requests import Draw
from tokenloom.web.views import VIEWS

pytestmark = pytest.mark.usefixtures("as_a_user")  # as readers run it; shape checks are on in the other tests
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()
REGISTRIES: list[Directory[Any]] = [
    NOISES, COUPLINGS, PROCESSES, SCHEDULES, PREDICTORS, CORRECTORS, STOPS, OBJECTIVES, NETWORKS, SOURCES, JUDGES,
    RECIPES, TASKS, VIEWS, COMMANDS,
]  # fmt: skip
SECTIONS = dict(re.findall(r"^## (An? [a-z ]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
Paste = Callable[[str], ModuleType]


@pytest.fixture
def paste(monkeypatch: pytest.MonkeyPatch) -> Iterator[Paste]:
    """Runs the skeleton of a section as a module; whatever it registers is forgotten afterwards."""

    def run(section: str) -> ModuleType:
        (code,) = re.findall(r"```python\n(.*?)```", SECTIONS[section], re.DOTALL)
        module = ModuleType("pasted")
        monkeypatch.setitem(sys.modules, "pasted", module)
        exec(compile(code, f"extending.md, {section}", "exec"), module.__dict__)
        return module

    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(registry.scratch())
        yield run


def small_config(**changes: Any) -> TrainConfig:
    data = MarkovSource(vocab_size=4, length=5, rows=8, valid_rows=2)
    network = TransformerOptions(width=8, depth=1, heads=1)
    return resolve(replace(TrainConfig(data=data, network=network, max_steps=1), **changes))


def test_every_section_has_a_test_and_every_registry_a_section() -> None:
    tests = [name.removeprefix("test_") for name in globals() if name.startswith(("test_a_", "test_an_"))]
    assert len(REGISTRIES) == len(SECTIONS)
    assert {section.lower() for section in SECTIONS} == {name.replace("_", " ") for name in tests}
    groups = set(re.findall(r"`(tokenloom\.\w+)`", PAGE))
    assert {registry.group for registry in REGISTRIES} <= groups


def assert_usable(process: tl.Process) -> None:
    """Every sampler that supports it draws from it, and where its bound is tight, that is the entropy."""
    oracle = tl.Oracle(brute.random_p0(3, 2), process, predicts=tl.LeaveOneOut)
    samplers = [name for name in PREDICTORS if PREDICTORS[name].supports(process) and name != "gillespie"]
    assert "ancestral" in samplers
    for sampler in samplers:
        assert tl.sample(oracle, 4, length=2, steps=3, sampler=sampler).shape == (4, 2)
    for corrector in [name for name in CORRECTORS if CORRECTORS[name].supports(process)]:
        assert tl.sample(oracle, 4, length=2, steps=4, corrector=corrector).shape == (4, 2)
    generator = torch.Generator().manual_seed(0)
    bound = tl.nelbo(oracle, oracle.sample(400, generator), generator=generator)
    assert bound.nats > oracle.entropy() - 5 * bound.standard_error
    assert not process.tight or bound.nats < oracle.entropy() + 5 * bound.standard_error


NETWORK = tl.nn.TransformerConfig(3, 3, 2, width=8, depth=1, heads=1)


def assert_saved(process: tl.Process, folder: Path) -> None:
    """A saved model is loaded with the process."""
    tl.DiffusionModel(tl.nn.DiT(NETWORK), process).save(folder / "model")
    assert tl.load(folder / "model").process == process


def test_a_noise(paste: Paste, tmp_path: Path) -> None:
    zipf = paste("A noise").Zipf
    for coupling in (tl.couplings.Markov(), tl.couplings.Maximal(), tl.couplings.Absorbing()):
        assert_usable(tl.Process(zipf(3), coupling))
    assert_saved(tl.Process(zipf(3, power=0.5)), tmp_path)


def test_a_coupling(paste: Paste, tmp_path: Path) -> None:
    settling = paste("A coupling").Settling
    for noise in (tl.noise.Uniform(3), tl.noise.Table(3, brute.random_pi(3, 2))):
        assert_usable(tl.Process(noise, settling(below=0.3)))
    assert_saved(tl.Uniform(3).with_coupling(settling(below=0.3)), tmp_path)


def test_a_process(paste: Paste, tmp_path: Path) -> None:
    tilted = paste("A process").tilted
    assert_usable(tilted(3))
    config = small_config(method="tilted:tilt=0.5")
    model = build_model(config, config.data.load())
    model.save(tmp_path / "model")
    assert tl.load(tmp_path / "model").process == model.process == tilted(4, tilt=0.5, schedule=model.schedule)


def test_a_schedule(paste: Paste) -> None:
    schedule = paste("A schedule").Quadratic()
    t = torch.linspace(0, 1, 11, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(schedule.alpha(t).sum(), t)
    torch.testing.assert_close(slope, schedule.alpha_prime(t).detach())
    torch.testing.assert_close(schedule.inverse(schedule.alpha(t)), t)
    config = small_config(schedule="quadratic")
    assert build_model(config, config.data.load()).schedule == schedule


def test_a_sampler(paste: Paste) -> None:
    paste("A sampler")
    p0 = brute.random_p0(3, 2)
    for process in (tl.Uniform(3), tl.Masked(3), tl.AbsorbingUniform(3)):
        oracle = tl.Oracle(p0, process, predicts=tl.Denoiser)
        mine, ancestral = (
            tl.sample(oracle, 16, length=2, steps=8, sampler=name, generator=torch.Generator().manual_seed(0))
            for name in ("mine", "ancestral")
        )
        assert torch.equal(mine, ancestral)
    with pytest.raises(ValueError, match="mine needs a model that sees every position"):
        PREDICTORS.parse("mine").check(tl.DiffusionModel(tl.nn.CausalTransformer(NETWORK), tl.LeftToRight(3)))


def test_a_corrector(paste: Paste) -> None:
    refresh = paste("A corrector").Refresh
    oracle = tl.Oracle(brute.random_p0(3, 2), tl.Uniform(3), predicts=tl.LeaveOneOut)
    sampler = tl.Sampler.parse("ancestral + refresh:share=0.5", steps=9)
    assert sampler.corrector == refresh(share=0.5)
    assert int(sampler.run(oracle, 8, length=2).evaluations.max()) <= 9


def test_a_stop_rule(paste: Paste) -> None:
    sure = paste("A stop rule").Sure
    oracle = tl.Oracle(brute.random_p0(3, 2), tl.Masked(3))
    assert STOPS.parse("sure:most=2") == sure(2.0)
    assert tl.Sampler(steps=9).run(oracle, 4, until=sure(9.0)).evaluations.tolist() == [1] * 4
    assert int(tl.Sampler(steps=9).run(oracle, 4, until=sure(0.0)).evaluations.max()) > 1


def test_an_objective(paste: Paste) -> None:
    paste("An objective")
    config = small_config(objective="weighted-ce:power=0.5")
    data = config.data.load()
    model, x_0, t = build_model(config, data), data.train.long(), torch.full((8,), 0.5)
    losses = [
        tl.training_loss(model, objective, x_0, t, torch.Generator().manual_seed(0)).per_token
        for objective in (OBJECTIVES.parse(config.objective or ""), tl.objectives.CrossEntropy())
    ]
    torch.testing.assert_close(losses[0], losses[1] * model.process.alpha(t)[:1].sqrt().to(losses[1].dtype))


def test_a_network(paste: Paste, tmp_path: Path) -> None:
    window = paste("A network")
    config = small_config(network=window.WindowOptions(width=8))
    data = config.data.load()
    model = build_model(config, data)
    loss = tl.training_loss(model, tl.objectives.CrossEntropy(), data.train.long(), torch.rand(8))
    torch.autograd.backward(loss.mean)
    model.save(tmp_path / "model")
    loaded = tl.load(tmp_path / "model")
    assert isinstance(loaded.network, window.Window)
    assert tl.sample(loaded, 2, steps=4).shape == (2, 5)
    assert isinstance(window.WindowOptions().build(Task(4, 4, 5)), window.Window)


def test_a_data_source(paste: Paste) -> None:
    source = paste("A data source").CountingSource(vocab_size=4, length=5)
    config = small_config(data=source)
    data = config.data.load()
    assert data.decode(data.train.long()[:1]) == ["0 1 2 3 0 "]
    assert build_model(config, data).about.source == {"kind": "counting", "vocab_size": 4, "length": 5}


def test_a_judge(paste: Paste) -> None:
    paste("A judge")
    tokens = torch.tensor([[0, 1, 2], [2, 1, 0]])
    rating = rate(load_judge("coin"), tokens, MarkovSource(rows=1, valid_rows=1).load().decode)
    assert rating.perplexity == pytest.approx(2)
    assert rating.judge == "a fair coin"


def test_a_recipe(paste: Paste) -> None:
    paste("A recipe")
    config = resolve(recipe("tiny"))
    assert config.recipe == "tiny"
    assert config.out == "runs/tiny-udm-loo-ce"


def test_a_task(paste: Paste, tmp_path: Path, shell: Shell) -> None:
    paste("A task")
    config = small_config()
    build_model(config, config.data.load()).save(tmp_path / "model")
    options = ["--task", "repeats", "--repeats.count", "2", "--repeats.steps", "2", "--out", str(tmp_path)]
    assert "model: " in shell("evaluate", str(tmp_path / "model"), *options).out
    assert 0 <= json.loads((tmp_path / "repeats.json").read_text())["model"] <= 1


def test_a_view(paste: Paste) -> None:
    paste("A view")
    view = VIEWS["markov"]()
    assert view.layout(16) == {"kind": "pixels", "side": 4}
    assert view.layout(17) is None
    with pytest.raises(ValueError, match="markov data has no rules"):
        view.program(Draw("run", tries=2), "'ancestral'", "run", 16)


def test_a_command(paste: Paste, shell: Shell) -> None:
    paste("A command")
    assert shell("describe", "--model", "shakespeare-udm-loo").out.startswith("Uniform, predicts LeaveOneOut, ")


def test_the_parts_of_the_page_keep_their_laws(paste: Paste) -> None:
    laws = PAGE.partition("\n## Does it keep its laws?\n")[2]
    (code,) = re.findall(r"```python\n(.*?)```", laws, re.DOTALL)
    parts: dict[str, Any] = {}
    for section in SECTIONS:
        parts |= vars(paste(section))
    exec(compile(code, "extending.md, laws", "exec"), parts)
    assert all(parts["reports"])


def test_what_is_drawn_comes_from_the_uniform_numbers_of_one_module() -> None:
    random = re.compile(r"torch\.(rand|bernoulli|multinomial|poisson|normal)|_like\(.*generator|\.(uniform|normal)_\(")
    rooms = ("drawing", "noise", "couplings", "oracles", "samplers")
    package = ROOT / "src" / "tokenloom"
    files = [package / "process.py", *(file for room in rooms for file in (package / room).rglob("*.py"))]
    assert [file.name for file in files if random.search(file.read_text())] == ["randomness.py"]


def test_every_file_named_in_the_page_exists() -> None:
    tests = re.findall(r"`((?:tests/|\w+/)?test_\w+\.py)`", PAGE)
    assert len(tests) > 10
    assert not [name for name in tests if not (ROOT / "tests" / name.removeprefix("tests/")).is_file()]
    rooms = re.findall(r"^\| [a-z ]+ \| `([\w/.]+)` \|", PAGE, re.MULTILINE)
    assert len(rooms) == len(REGISTRIES)
    assert not [name for name in rooms if not (ROOT / "src" / "tokenloom" / name).exists()]

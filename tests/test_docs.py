"""What the documentation says is there is there, and it builds without a warning."""

import os
import re
import shlex
import subprocess
import sys
from functools import reduce
from importlib import import_module, util
from pathlib import Path

import pytest

import tokenloom as tl
from tokenloom.cli import main
from tokenloom.processes import PROCESSES
from tokenloom.samplers import CORRECTORS, PREDICTORS

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text()
SAMPLERS = (ROOT / "docs" / "samplers.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAPER.splitlines() if re.match(r"\| `\S+:", line)]
NAMED = re.compile(r"`([^`]+)`")


def found(name: str) -> bool:
    """Whether `module.path.Class.method` below tokenloom exists."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(["tokenloom", *parts[:cut]])
        try:
            loaded = import_module(module)
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[cut:], loaded)
        except AttributeError:
            return False
        return True
    return False


def test_every_function_named_beside_the_paper_exists() -> None:
    assert len(ROWS) > 40
    names = {name for row in ROWS for name in NAMED.findall(row[2])}
    assert not [name for name in sorted(names) if not found(name)]
    assert not found("bridges.no_such_bridge")


def test_every_test_named_beside_the_paper_exists() -> None:
    missing = []
    for row in ROWS:
        (name,) = NAMED.findall(row[3])
        file, function = name.split("::")
        source = ROOT / "tests" / file
        if not source.is_file() or f"def {function}(" not in source.read_text():
            missing.append(name)
    assert not missing


def test_every_label_in_the_code_is_beside_the_paper() -> None:
    label = re.compile(r"`((?:main-)?(?:eq|prop|lem|alg|ass):[\w-]+)`")
    used = {name for path in (ROOT / "src").rglob("*.py") for name in label.findall(path.read_text())}
    assert len(used) > 20
    assert not used - set(label.findall(PAPER))


def test_sampler_tables_are_those_of_the_registries() -> None:
    spec = util.spec_from_file_location("render_samplers", ROOT / "scripts" / "render_samplers.py")
    assert spec is not None
    assert spec.loader is not None
    script = util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.render(SAMPLERS) == SAMPLERS, "run: python scripts/render_samplers.py docs/samplers.md"


def test_every_registered_sampler_has_a_word_on_when_to_use_it() -> None:
    advice = SAMPLERS[SAMPLERS.index("## When to use which") : SAMPLERS.index("## What a step costs")]
    heads = " ".join(re.findall(r"^- (.*?):", advice, re.MULTILINE))
    assert set(NAMED.findall(heads)) == PREDICTORS.keys() | CORRECTORS.keys()


def test_every_public_name_is_on_the_api_page() -> None:
    page = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))
    processes = {PROCESSES[name].__name__ for name in PROCESSES}
    objectives = {tl.objectives.OBJECTIVES[name].__name__ for name in tl.objectives.OBJECTIVES}
    renamed = {"CosineSchedule": "schedules", "GeometricSchedule": "schedules",
               "LinearSchedule": "schedules", "PolynomialSchedule": "schedules", "Schedule": "schedules"}  # fmt: skip
    names = {renamed.get(name, name) for name in {*tl.__all__, *processes, *objectives}}
    assert not names - page


def commands() -> list[list[str]]:
    """The arguments of every `tokenloom` command in a shell block or in backticks of the README and the docs.

    Those with a gap or a variable are left out, and --resume and --from, which read the run or model that they name.
    """
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    found = []
    for page in pages:
        text = page.read_text().replace("\\\n", " ")
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        lines = re.findall(r"^(?:torchrun .*-m )?tokenloom (.*?)(?:\s+#.*)?$", blocks, re.MULTILINE)
        lines += re.findall(r"`(?:torchrun [^`]*-m )?tokenloom ([^`]+)`", text)
        found += [shlex.split(line) for line in lines if not re.search(r"…|\$|--resume|--from", line)]
    return found


def test_every_command_shown_exists_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    shown = commands()
    assert len(shown) > 30
    for words in shown:
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        help_text = capsys.readouterr().out
        assert ended.value.code == 0, words
        options = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
        assert not [option for option in options if not re.search(rf"{option}[ ,]", help_text)], words


@pytest.mark.skipif(util.find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    # no --quiet: it silences the warnings that --strict counts
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "DNDM" in (tmp_path / "samplers" / "index.html").read_text()
    rendered = (tmp_path / "api" / "index.html").read_text()
    kernels = [registry[name] for registry in (PREDICTORS, CORRECTORS) for name in registry]
    assert not [kernel for kernel in kernels if f'id="{kernel.__module__}.{kernel.__name__}"' not in rendered]

"""What the documentation says is there is there, and it builds without a warning."""

import os
import re
import shlex
import subprocess
import sys
from importlib import util
from pathlib import Path
from pkgutil import resolve_name
from runpy import run_path
from types import SimpleNamespace

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tokenloom.cells import PROCESSES
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.testing import check_coupling

pytestmark = pytest.mark.usefixtures("as_a_user")  # as readers run it; shape checks are on in the other tests
ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text()
SAMPLERS = (ROOT / "docs" / "samplers.md").read_text()
MKDOCS = (ROOT / "mkdocs.yml").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAPER.splitlines() if re.match(r"\| `\S+:", line)]
NAMED = re.compile(r"`([^`]+)`")
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials" and page.stem != "index"]
EXTENDING = ROOT / "docs" / "extending.md"
draws = pytest.mark.skipif(util.find_spec("matplotlib") is None, reason="the extra evaluate is not installed")


def found(name: str) -> bool:
    """Whether `module.path.Class.method` below tokenloom exists."""
    try:
        resolve_name(f"tokenloom.{name}")
    except (ImportError, AttributeError):
        return False
    return True


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


def script(name: str) -> SimpleNamespace:
    """The names that a file of scripts/ defines."""
    return SimpleNamespace(**run_path(str(ROOT / "scripts" / f"{name}.py")))


def test_sampler_tables_are_those_of_the_registries() -> None:
    assert script("render_samplers").render(SAMPLERS) == SAMPLERS, (
        "run: python scripts/render_samplers.py docs/samplers.md"
    )


@draws
def test_speed_tables_and_picture_are_those_of_the_stored_results(tmp_path: Path) -> None:
    speed, page = script("render_speed"), ROOT / "docs" / "speed.md"
    assert speed.render(page.read_text()) == page.read_text(), "run: python scripts/render_speed.py docs/speed.md"
    speed.draw(tmp_path / "speed.svg")
    assert (tmp_path / "speed.svg").read_text().count("<path") == speed.PICTURE.read_text().count("<path")


@pytest.mark.parametrize("name", ["speed.md", "samplers.md", "diffusers.md"])
def test_tables_beside_other_packages_are_those_of_the_stored_results(name: str) -> None:
    peers, page = script("render_peers"), (ROOT / "docs" / name).read_text()
    assert peers.render(name, page) == page, "run: python scripts/render_peers.py"


def test_every_registered_sampler_has_a_word_on_when_to_use_it() -> None:
    advice = SAMPLERS[SAMPLERS.index("## When to use which") : SAMPLERS.index("## What a step costs")]
    heads = " ".join(re.findall(r"^- (.*?):", advice, re.MULTILINE))
    assert set(NAMED.findall(heads)) == PREDICTORS.keys() | CORRECTORS.keys()


def test_every_public_name_is_on_the_api_page() -> None:
    page = {word for path in (ROOT / "docs" / "api").glob("*.md") for word in re.findall(r"\w+", path.read_text())}
    processes = {PROCESSES[name].__name__ for name in PROCESSES}
    objectives = {tl.objectives.OBJECTIVES[name].__name__ for name in tl.objectives.OBJECTIVES}
    assert not {*tl.__all__, *processes, *objectives} - page


def commands() -> list[list[str]]:
    """The arguments of every `tokenloom` command in a shell block or in backticks of the README and the docs.

    Those with a gap or a variable are left out, and --resume, --from and --tyro, which read or write what they name; so
    is extending.md, whose commands name what its skeletons define.
    """
    pages = [ROOT / "README.md", *(page for page in PAGES if page.name != "extending.md")]
    found = []
    for page in pages:
        text = page.read_text().replace("\\\n", " ")
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        lines = re.findall(r"^(?:torchrun .*-m )?tokenloom (.*?)(?:\s+#.*)?$", blocks, re.MULTILINE)
        lines += re.findall(r"`(?:torchrun [^`]*-m )?tokenloom ([^`]+)`", text)
        found += [shlex.split(line) for line in lines if not re.search(r"…|\$|--resume|--from|--tyro", line)]
    return found


def test_every_command_shown_exists_with_its_options(shell: Shell) -> None:
    """Commands that differ in values alone are asked once."""
    shown = {}
    for words in commands():
        options = frozenset(word.partition("=")[0] for word in words if word.startswith("--"))
        shown[words[0], options] = words
    assert len(shown) > 30
    for (_, options), words in shown.items():
        help_text = shell.ends(0, *words, "--help").out
        assert not [option for option in options if not re.search(rf"{option}[ ,]", help_text)], words


def blocks(page: Path) -> list[tuple[str, str]]:
    """The Python blocks of a page, each with what it needs that a test does not have."""
    return re.findall(r"(?:^<!-- needs: (.*?) -->\n)?^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page not in (*TUTORIALS, EXTENDING)], ids=lambda page: page.stem
)
def test_python_of_a_page_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for needs, code in blocks(page):
        compiled = compile(code, page.name, "exec")
        if not needs:
            exec(compiled, names)


@draws
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_tutorial_runs_with_its_short_values(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`make docs` runs them in full."""
    monkeypatch.chdir(tmp_path)
    tutorials = script("docs_tutorials")
    text = page.read_text()
    done = tutorials.execute(text, page.stem, short=True)
    assert done.figures.keys() == tutorials.skip(text, page.stem).figures.keys()
    assert "# tested with" not in done.markdown
    assert not list(tmp_path.iterdir())


@draws
def test_a_mistake_in_a_coupling_is_reported_as_extending_shows() -> None:
    (skeleton,) = (code for _, code in blocks(EXTENDING) if "class Settling" in code)
    mistaken = skeleton.replace("clean + (1 - clean) * settled", "clean + settled")
    assert mistaken != skeleton
    settling = script("docs_tutorials").execute(f"```python\n{mistaken}```\n", "mistaken").names["Settling"]
    zipf = torch.tensor([[12.0, 6.0, 4.0, 3.0]], dtype=torch.float64) / 25
    report = str(check_coupling(settling(), tl.noise.Table(4, zipf)))
    (shown,) = re.findall(r"```text\n(coupling .*?)```", EXTENDING.read_text(), re.DOTALL)
    assert set(shown.replace("Zipf", "Table").splitlines()) <= set(report.splitlines())


def test_every_tutorial_is_in_the_gallery_with_a_picture() -> None:
    gallery = (ROOT / "docs" / "tutorials" / "index.md").read_text()
    links = set(re.findall(r"\]\(([\w-]+)\.md\)", gallery))
    assert links == {page.stem for page in TUTORIALS}
    assert set(re.findall(r"\]\(([\w-]+)-1\.svg\)", gallery)) == links


def test_plain_text_formulas_are_typeset_and_tables_are_not() -> None:
    """Nor are names of arguments."""
    typeset = script("docs_formulas").typeset
    law = typeset(
        "A law.\n\n    x_s^l  ~  p_t(. | x_t^{-l}) = alpha_t nu^l + (1 - alpha_t) pi,   t <= 1\n\nAt x_t, `x_t` stays."
    )
    expected = r"\[ x_s^l \sim  p_t(\cdot\mid x_t^{-l}) = \alpha _t \nu ^l + (1 - \alpha _t) \pi ,\quad t \le  1 \]"
    assert expected in law
    assert law.endswith(r"At \(x_t\), `x_t` stays.")
    table = "Tokenizers.\n\n    bytes      UTF-8, K = 256; decode(encode(s)) = s\n"
    assert typeset(table) == table
    assert typeset("A law.\n\nArgs:\n    x_0: Near x_t.\n") == "A law.\n\nArgs:\n    x_0: Near \\(x_t\\).\n"


def test_nothing_of_the_documentation_comes_from_elsewhere() -> None:
    """The link to the repository is a link alone: the theme's own asks GitHub for figures."""
    (repository,) = re.findall(r"^repo_url: (\S+)$", MKDOCS, re.MULTILINE)
    assert re.findall(r"http[^\s\"']+", MKDOCS) == [repository]
    assert f'Repository = "{repository}"' in (ROOT / "pyproject.toml").read_text()
    assert "data-md-component" not in (ROOT / "docs" / "templates" / "partials" / "source.html").read_text()
    assert "font: false" in MKDOCS
    for script_or_style in re.findall(r"javascripts/[\w./-]+", MKDOCS):
        assert (ROOT / "docs" / script_or_style).is_file()


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"([\w/-]+\.md)$", MKDOCS, re.MULTILINE)
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in PAGES)


def test_the_documentation_has_a_dark_scheme_that_follows_the_system() -> None:
    media = re.findall(r'media: "\(prefers-color-scheme(?:: (\w+))?\)"\n(?: +scheme: (\w+)\n)?', MKDOCS)
    assert media == [("", ""), ("light", "default"), ("dark", "slate")]


@pytest.mark.skipif(util.find_spec("mkdocs") is None, reason="the extra docs is not installed")
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    # no --quiet: it silences the warnings that --strict counts
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "TUTORIALS": "skip"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "DNDM" in (tmp_path / "samplers.html").read_text()
    rendered = (tmp_path / "api" / "sampling.html").read_text()
    kernels = [registry[name] for registry in (PREDICTORS, CORRECTORS) for name in registry]
    assert not [kernel for kernel in kernels if f'id="{kernel.__module__}.{kernel.__name__}"' not in rendered]
    assert "batch length" in (tmp_path / "api" / "models.html").read_text()  # shapes are shown
    assert "unpkg" not in rendered
    assert 'data-md-component="source"' not in rendered
    assert (tmp_path / "search" / "search_index.js").is_file()  # search without a server

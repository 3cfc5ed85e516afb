"""What is released: the wheel holds the whole package and works without the clone; the version is said in one place."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

import tokenloom as tl
from tokenloom.models.bundled import bundled_names

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/tokenloom/tokenloom"
RAW = "https://raw.githubusercontent.com/tokenloom/tokenloom"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(built / f"tokenloom-{tl.__version__}-py3-none-any.whl")


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src" / "tokenloom"
    files = (file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    expected = {file.relative_to(source.parent).as_posix() for file in files}
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert found == expected
    assert "tokenloom/py.typed" in found


def test_the_bundled_models_bring_their_licence_and_provenance(wheel: zipfile.ZipFile) -> None:
    text = wheel.read("tokenloom/models/bundled/LICENSE.md").decode()
    assert [name for name in bundled_names() if f"`{name}`" not in text] == []
    licences = [name for name in wheel.namelist() if ".dist-info/licenses/" in name]
    assert len(licences) == 2


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return HeaderParser().parsestr(wheel.read(f"tokenloom-{tl.__version__}.dist-info/METADATA").decode())


def test_the_metadata_says_what_is_supported(metadata: Message) -> None:
    assert metadata["Version"] == tl.__version__
    assert metadata["License-Expression"] == "MIT"
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
    assert metadata["Requires-Python"] == f">={versions[0]}"
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    matrix = {
        key: json.loads(values) for key, values in re.findall(r"^ +(python|torch): (\[.*?\])", workflow, re.MULTILINE)
    }
    assert matrix["python"] == versions
    (oldest,) = re.findall(r"torch>=(\S+)", "\n".join(metadata.get_all("Requires-Dist", [])))
    assert f"{oldest}.0" in matrix["torch"]


def test_the_description_links_to_files_of_the_released_version(metadata: Message) -> None:
    """PyPI shows the README without the repository around it, so no link may be relative."""
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", description)
    own = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    places = (f"{REPOSITORY}/blob/v{tl.__version__}/", f"{RAW}/v{tl.__version__}/")
    files = [link.removeprefix(places[0]).removeprefix(places[1]) for link in links]
    assert files == own
    assert not [file for file in files if not (ROOT / file).exists()]
    assert all(link.startswith(places) for link in links)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", description)
    assert pictures
    assert all(picture.startswith(RAW) for picture in pictures)


def test_the_urls_of_the_project_are_those_of_its_repository(metadata: Message) -> None:
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Homepage", "Documentation", "Repository", "Issues", "Changelog"}
    documentation = urls.pop("Documentation")
    assert documentation == "https://tokenloom.github.io/tokenloom"
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert (ROOT / urls["Changelog"].removeprefix(f"{REPOSITORY}/blob/main/")).is_file()


def test_the_source_archive_is_small(built: Path) -> None:
    archive = built / f"tokenloom-{tl.__version__}.tar.gz"
    with tarfile.open(archive) as opened:
        names = [name.split("/", 1)[1] for name in opened.getnames()]
    top = {name.split("/")[0] for name in names}
    named = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml"}
    assert top == named | {"src", "PKG-INFO", ".gitignore"}
    assert archive.stat().st_size < 12e6


def test_the_wheel_solves_a_sudoku_without_the_clone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    wheel.extractall(site)
    code = "import sys, tokenloom; print(tokenloom.__file__); from tokenloom.cli import main; main(sys.argv[1:])"
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", code, "solve", "1.....2..3.....4"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.startswith(str(site))
    assert "solved at try" in done.stdout


def test_the_version_is_the_newest_of_the_changelog_and_that_of_the_citation() -> None:
    newest = re.findall(r"^## (\d\S*?):? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    (cited,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert newest == cited == tl.__version__

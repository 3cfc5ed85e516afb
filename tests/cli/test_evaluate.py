"""`tokenloom evaluate`: figures that the library gives itself, on data that says what it is."""

import json
import math
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.evaluation.helpers import save_causal_lm
from tests.training.helpers import saved, tiny, train
from tokenloom.cli import main
from tokenloom.cli.evaluate import column_name
from tokenloom.data.text import TextSource
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.training.build import resolve
from tokenloom.training.recipes import recipe

TEXT = "the loom weaves the warp and the weft , and the weaver sings .\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run, so that it holds averaged and raw weights."""
    folder = tmp_path_factory.mktemp("runs") / "markov"
    train(tiny(folder))
    return folder


def text_run(folder: Path, method: str = "udm", **changes: Any) -> tl.DiffusionModel:
    """A run on text.txt, with another text beside it."""
    (folder / "text.txt").write_text(TEXT * 40)
    (folder / "other.txt").write_text(TEXT * 20)
    data = TextSource(path=str(folder / "text.txt"), length=16, **changes)
    return saved(tiny(folder / "run", data=data, method=method, predicts=None, objective=None), folder / "run")


def evaluated(*arguments: str) -> dict[str, Any]:
    """The only record of a fresh folder."""
    folder = Path(tempfile.mkdtemp(dir="."))
    main(["evaluate", *arguments, "--out", str(folder)])
    (path,) = folder.iterdir()
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_the_figure_is_that_of_nelbo_and_stands_beside_the_entropy(trained: Path, shell: Shell) -> None:
    printed = shell("evaluate", str(trained), "--sequences", "100", "--samples", "2", "--seed", "5").out
    (path,) = (trained / "evaluation").iterdir()
    assert path.name == "likelihood-markov-ema-markov-chain-of-5-tokens.json"
    found = json.loads(path.read_text())
    data = tiny(trained).data.load()
    rows = data.valid[torch.arange(100) * len(data.valid) // 100].long()
    expected = tl.nelbo(tl.load(trained / "model"), rows, 2, generator=torch.Generator().manual_seed(5))
    assert found["likelihood"]["per_token"] == pytest.approx(expected.per_token, rel=1e-6)
    assert found["likelihood"]["perplexity"] == pytest.approx(expected.perplexity, rel=1e-6)
    assert found["data"]["entropy"] == pytest.approx(data.entropy)
    assert found["data"]["tokens"] == data.valid.numel()
    origin = found["provenance"]
    assert (origin["model"], origin["weights"], origin["trained_steps"]) == ("markov", "ema", 20)
    assert (origin["process"], origin["predicts"]) == ("Uniform", "LeaveOneOut")
    assert origin["weights_sha256"] == sha256((trained / "model" / "model.safetensors").read_bytes()).hexdigest()
    assert found["settings"]["sequences"] == 100
    assert f"≤ {expected}" in printed
    assert f"entropy {data.entropy:.4f}" in printed


def test_raw_and_averaged_weights_are_two_rows(trained: Path, shell: Shell) -> None:
    printed = shell("evaluate", str(trained), "--sequences", "50", "--weights", "both", "--out", "here").out
    assert all(f"markov ({kind}, step 20)" in printed for kind in ("ema", "raw"))
    ema, raw = (json.loads(path.read_text())["likelihood"]["nats"] for path in Path("here").iterdir())
    assert ema != raw


def test_text_is_read_with_the_runs_own_tokenizer_and_counted_in_characters(tmp_path: Path) -> None:
    model = text_run(tmp_path, tokenizer="bytes")
    found = evaluated("run", "--data", "other.txt", "--sequences", "0")
    ids = torch.tensor(list((TEXT * 20).encode()))
    rows = ids[: len(ids) // 16 * 16].view(-1, 16)
    expected = tl.nelbo(model, rows, generator=torch.Generator().manual_seed(0))
    assert found["likelihood"]["per_token"] == pytest.approx(expected.per_token, rel=1e-6)
    assert found["per_character"]["nats"] == pytest.approx(expected.per_token, rel=1e-6)
    plain = found["data"]
    assert (plain["packing"], plain["detokeniser"]) == ("wrap", "none")
    assert plain["tokenizer"].startswith("bytes, 256 ids")
    undone = evaluated("run", "--data", "other.txt", "--detokeniser", "wikitext")["data"]
    assert undone["detokeniser"] == "wikitext"
    assert plain["tokens"] - undone["tokens"] >= 20  # the spaces before , and .
    assert plain["sha256"] != undone["sha256"]


def test_a_language_model_of_hugging_face_goes_through_the_same_table(tmp_path: Path, shell: Shell) -> None:
    """Without knowledge it needs log K nats per token of its own, and fewer per character where tokens are longer."""
    text_run(tmp_path, "ar")
    tokenizer = build_tokenizer("bpe:290", [TEXT * 40])
    save_causal_lm(Path("lm"), tokenizer, spread=0.0)
    printed = shell("evaluate", "run", "lm", "--data", "other.txt", "--sequences", "0").out
    assert "lm (causal language model)" in printed
    found = json.loads(Path("evaluation/likelihood-lm-other.txt.json").read_text())
    size = math.log(tokenizer.vocab_size)
    assert found["likelihood"]["per_token"] == pytest.approx(size, rel=1e-5)
    assert found["data"]["length"] == 16  # that of the run beside it
    scored = found["likelihood"]["tokens"]
    ids = [*tokenizer.encode(TEXT * 20), tokenizer.end_of_sequence][:scored]
    characters = len(tokenizer.decode([token for token in ids if token != tokenizer.end_of_sequence]))  # type: ignore[misc]
    assert found["per_character"]["nats"] == pytest.approx(size * scored / characters, rel=1e-5)
    assert found["per_character"]["nats"] < size / 2


def test_only_free_cells_of_a_grid_are_counted(tmp_path: Path) -> None:
    config = resolve(replace(recipe("sudoku4"), out=str(tmp_path / "run")))
    saved(config, tmp_path / "run")
    found = evaluated("run", "--sequences", "10")["likelihood"]
    assert found["sequences"] == 10
    assert 10 * 4 <= found["tokens"] <= 10 * 12


def test_columns_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "valid.txt").touch()
    both = [str(tmp_path / folder / "valid.txt") for folder in ("a", "b")]
    assert [column_name(source, both) for source in both] == ["a/valid.txt", "b/valid.txt"]
    assert column_name(both[0], both[:1]) == "valid.txt"
    assert column_name("wikitext", [*both, "wikitext"]) == "wikitext"


def test_what_cannot_be_evaluated_gets_a_sentence(trained: Path, tmp_path: Path, shell: Shell) -> None:
    text_run(tmp_path)
    Path("short.txt").write_text("the loom")
    Path("empty.txt").write_text(" \n")
    Path("file").touch()
    markov = str(trained)
    for arguments, sentence in (
        ([], "name at least one run folder"),
        (["nowhere"], "nowhere is not a run"),
        ([markov, markov], f"a run is named twice: {markov}"),
        ([markov, "--data", "text.txt"], "markov data is generated and not read from a file, got text.txt"),
        ([markov, "--data", "digits"], "has 17 tokens, but markov was trained on 5"),
        (["run", "--weights", "raw"], "no intact checkpoint with raw weights"),
        (["run", "--data", "short.txt"], "has 8 tokens, but one row needs 16"),
        (["run", "--data", "empty.txt"], "empty.txt is empty"),
        (["run", "--data", "wikitxt"], "there is no file, folder or data set wikitxt; did you mean wikitext"),
        ([markov, "--sequences", "5", "--out", "file/here"], "cannot write"),
    ):
        assert sentence in shell.refusal("evaluate", *arguments)


def test_unknown_characters_are_refused_or_dropped_with_a_word(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "text.txt").write_text("to be or not to \u00e9 \u00df be, that is the question. " * 30)
    few = ["--sequences", "2", "--samples", "1"]
    command = ["evaluate", "shakespeare-udm-loo", "--data", str(tmp_path / "text.txt"), *few]
    assert "evaluate --unknown drop" in shell.refusal(*command)
    said = " ".join(shell(*command, "--unknown", "drop", "--out", str(tmp_path / "out")).out.split())
    assert "60 characters that the tokenizer does not know are dropped from the text" in said


def test_the_truncated_figure_stands_beside_the_bound_under_its_own_name(
    untrained: Path, shell: Shell, tmp_path: Path
) -> None:
    measured = ["evaluate", str(untrained), "--sequences", "16", "--out", str(tmp_path), "--truncated-at"]
    assert "truncated" in shell(*measured, "0.001").out
    record = json.loads(next(tmp_path.glob("likelihood-*.json")).read_text())
    assert "not a bound" in record["truncated"]["estimator"]
    assert record["truncated"]["per_token"] < record["likelihood"]["per_token"]
    assert "must be a time in (0, 1), as in 0.001, got 2" in shell.refusal(*measured, "2")

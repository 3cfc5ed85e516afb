"""`tokenloom sample`: what a person sees and gets, and what a wrong input meets."""

import json
import re
from pathlib import Path

import pytest

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.training.helpers import saved, tiny
from tokenloom.data.text import TextSource
from tokenloom.models.tokenizer import Characters
from tokenloom.samplers import CORRECTORS, PREDICTORS, STOPS
from tokenloom.support import display


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("text")
    (folder / "input.txt").write_text("the cat sat on the mat and the dog ran to the sea\n" * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        saved(tiny(folder, data=TextSource(path=str(folder / "input.txt"), length=24)), folder)
    return str(folder)


def test_a_seed_gives_the_same_rows_whatever_the_number_and_the_batch(untrained: Path, shell: Shell) -> None:
    many = shell.json("sample", str(untrained), "--num", "6", "--steps", "4", "--batch", "4")
    few = shell.json("sample", str(untrained), "--num", "2", "--steps", "4")
    other = shell.json("sample", str(untrained), "--num", "2", "--steps", "4", "--seed", "1")
    assert many["tokens"][:2] == few["tokens"]
    assert other["tokens"] != few["tokens"]
    options = few["provenance"]["options"]
    assert (options["steps"], options["seed"], options["sampler"]) == (4, 0, "ancestral")


def test_prompt_and_infill_are_kept(text: str, shell: Shell) -> None:
    prompted = shell.json("sample", text, "--num", "3", "--steps", "4", "--prompt", "the cat")
    assert all(sample.startswith("the cat") and len(sample) == 24 for sample in prompted["samples"])
    filled = shell.json("sample", text, "--num", "3", "--steps", "4", "--infill", "the ___ sat")
    assert {sample[:4] + "___" + sample[7:] for sample in filled["samples"]} == {"the ___ sat"}  # and no longer
    longer = shell.json("sample", text, "--num", "1", "--steps", "4", "--infill", "the ___ sat", "--length", "20")
    assert len(longer["samples"][0]) == 20


def test_prompts_and_templates_take_turns_each_as_if_alone(text: str, shell: Shell) -> None:
    draw = ["sample", text, "--num", "4", "--steps", "4"]
    prompted = shell.json(*draw, "--prompt", "the cat", "a")["samples"]
    assert [sample[:7] == "the cat" for sample in prompted] == [True, False, True, False]
    assert all(sample.startswith("a") for sample in prompted[1::2])
    filled = shell.json(*draw, "--infill", "the ___ sat", "a _")["samples"]
    assert [len(sample) for sample in filled] == [11, 3, 11, 3]
    alone = shell.json(*draw, "--infill", "the ___ sat")["samples"]
    assert filled[::2] == alone[::2]  # row i of a seed is the same whatever the others are


@pytest.mark.parametrize(
    "options",
    [
        ["--corrector", "informed:steps=3"],
        ["--corrector-steps", "3"],
        ["--corrector", "scan:steps=9", "--corrector-steps", "3"],
    ],
)
def test_a_corrector_is_used_however_it_is_named(options: list[str], text: str, shell: Shell) -> None:
    """Of 6 evaluations 2 are of the sampler and 3 of the corrector between them; without it all 6 are taken."""
    plain = shell.json("sample", text, "--num", "2", "--steps", "6")
    corrected = shell.json("sample", text, "--num", "2", "--steps", "6", *options)
    assert (plain["evaluations"], corrected["evaluations"]) == (6, 5)


def test_sequences_stop_by_a_rule_and_the_record_says_so(text: str, shell: Shell) -> None:
    """Any entropy is below 9 nats, so a row that need not be stable stops at its first evaluation."""
    options = ["--num", "2", "--steps", "32", "--sampler", "entropy-bound"]
    plain = shell.json("sample", text, *options)
    stopped = shell.json("sample", text, *options, "--until", "stable:stability=0,confidence=9")
    assert (plain["evaluations"], stopped["evaluations"]) == (32, 1)
    assert stopped["provenance"]["options"]["until"] == "stable:stability=0,confidence=9"


def test_watch_shows_every_step_and_out_holds_everything(text: str, tmp_path: Path, shell: Shell) -> None:
    out = tmp_path / "deep" / "samples.json"
    options = ["--num", "2", "--steps", "3", "--watch", "--corrector-steps", "1", "--out", str(out)]
    assert "step 2/2" in shell("sample", text, *options).out
    record = json.loads(out.read_text())
    assert set(record) == {"samples", "tokens", "evaluations", "seconds_per_sample", "provenance"}
    assert record["evaluations"] <= 3
    assert [path.name for path in out.parent.iterdir()] == ["samples.json"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--steps", "0"], "steps must be a whole number, at least 1, got 0"),
        (["--top-p", "1.5"], "top_p must be in (0, 1], got 1.5"),
        (["--temperature", "0"], "temperature must be positive and finite, got 0.0"),
        (["--sampler", "ancestrl"], "did you mean ancestral"),
        (["--sampler", "psi:kapa=0.5"], "did you mean kappa"),
        (
            ["--sampler", "reaudm"],
            "needs a process with an auxiliary variable, but the model's process is Uniform",
        ),
        (["--prompt", "the cat sat on the mat and the dog"], "34 tokens, but a sequence has 24"),
        (["--prompt", "ZEBRA"], "Z"),
        (["--num", "0"], "num must be at least 1, got 0"),
        (["--corrector-steps", "-1"], "--corrector-steps must not be negative, got -1"),
        (["--out", str(Path(__file__).parent)], "which is not part of samples; name a new folder with --out"),
        (["--out", "/dev/null/here.json"], "cannot write to /dev/null: "),
        (["--until", "stabel"], "there is no stop rule 'stabel'; did you mean stable?"),
        (["--corrector", "informd"], "there is no corrector 'informd'; did you mean informed"),
        (["--corrector-steps", "5", "--steps", "6"], "at least 7 evaluations, got steps=6"),
        (["--out", "picture.png"], "picture.png would be a picture, but the model writes text; write .json instead"),
        (["--num", str(10**18)], "sequences of 24 tokens needs about 1.5e+12 GB, and this machine has"),
        (["--steps", str(10**12)], "a grid of 1,000,000,000,000 steps needs about 8,000.0 GB, and this machine has"),
    ],
)
def test_a_wrong_input_gets_a_sentence(text: str, arguments: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refusal("sample", text, *arguments)


def test_every_sampler_is_listed(text: str, shell: Shell) -> None:
    printed = shell("sample", text, "--sampler", "list").out
    assert all(name in printed for name in [*PREDICTORS, *CORRECTORS, *STOPS])
    assert f"(needs {PREDICTORS['confidence'].needs})" in " ".join(printed.split())


def test_the_bundled_text_model_goes_on_where_a_prompt_ends(shell: Shell) -> None:
    """Most of its words of four letters and more end in one of nine letters, as English ones do (9 in 26 by chance)."""
    options = ["--num", "2", "--steps", "32", "--top-p", "0.9", "--prompt", "ROMEO:\nI "]
    for sample in shell.json("sample", "shakespeare-udm-loo", *options)["samples"]:
        assert sample.startswith("ROMEO:\nI ")
        assert len(sample) == 256
        words = [word for word in re.findall(r"[a-z]+", sample[9:]) if len(word) >= 4]
        assert len(words) > 10
        assert sum(word[-1] in "edtnrsyhl" for word in words) > 0.7 * len(words)


def test_one_sequence_and_a_pipe_sees_progress(untrained: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.01)
    told = shell("sample", str(untrained), "--num", "1", "--steps", "64")
    assert re.search(r"^1 sequence, \d+\.\d evaluations each", told.out, re.MULTILINE)
    assert re.search(r"\d+%  sampling 1 sequence: step \d+ of 64", told.err)


def test_a_row_of_a_causal_model_stops_at_the_end_of_its_document(tmp_path: Path, shell: Shell) -> None:
    network = tl.nn.CausalTransformer(tl.nn.TransformerConfig(4, 4, 24, 16, 1, 2, 8, time=False))
    model = tl.DiffusionModel(network, tl.LeftToRight(4), tokenizer=Characters("abc", ends=True))
    model.save(tmp_path / "causal")
    record = shell.json("sample", str(tmp_path / "causal"), "--num", "8", "--seed", "2")
    ends = [row.index(3) for row in record["tokens"]]  # flat logits: an end comes after 4 tokens on average
    assert all(row[place:] == [3] * (24 - place) for row, place in zip(record["tokens"], ends, strict=True))
    assert [len(text) for text in record["samples"]] == ends
    assert record["evaluations"] <= sum(place + 1 for place in ends) / 8  # a token drawn as it was asks nothing anew

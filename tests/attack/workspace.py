"""What is attacked: tiny runs, models, data and judges, made once, and what they give while they are intact."""

import hashlib
import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import torch

import tokenloom as tl
from tests.attack.outcome import RefusalError
from tokenloom.cli import main

SMALL = (
    "--network.width 16 --network.depth 1 --network.heads 2 --network.condition 8 --optimiser.batch 4 "
    "--optimiser.warmup 2 --run.valid-rows 8 --run.checkpoint-every 2"
)
MARKOV = f"--recipe markov --data.vocab-size 5 --data.length 8 --data.rows 40 --data.valid-rows 16 {SMALL}"
TEXTS = f"--recipe chars --data.length 16 {SMALL}"
FRONTIER = "frontier {space}/text --steps 2 --top-p 1 --num 2"
WORDS = 64
TEXT = "the cat sat on the mat and the dog ran to the sea\n" * 40


@dataclass(frozen=True)
class Workspace:
    """A folder with everything that is attacked, never changed after it is made."""

    folder: Path
    complete: bool
    """True with a judge of Hugging Face and a frontier, whose libraries take seconds to import."""

    @cached_property
    def samples(self) -> dict[str, object]:
        """What the intact models sample."""
        return {name: sampled(self.folder / name) for name in ("run", "text")}

    @cached_property
    def predictions(self) -> dict[str, str]:
        """What the intact models predict; `whole` is that of the run that nothing interrupted."""
        return {name: predicted(self.folder / name / "model") for name in ("run", "text", "whole")}

    @cached_property
    def end(self) -> dict[str, bytes]:
        """The newest checkpoint of the run that nothing interrupted."""
        return weights(self.folder / "whole")


def command(*arguments: str) -> str:
    """What a command prints; a refusal with its cause where it refuses."""
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main(list(arguments))
    except SystemExit as stop:
        if stop.code not in (0, 1, None):
            words = " ".join(err.getvalue().split()) or " ".join(out.getvalue().split())
            raise RefusalError(f"status {stop.code}: {words}") from stop.__context__
    return out.getvalue()


def build(folder: Path, complete: bool) -> Workspace:
    """Make the runs; a few seconds."""
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    data = folder / "data"
    data.mkdir(parents=True)
    (data / "input.txt").write_text(TEXT)
    (data / "model.gguf").write_bytes(b"GGUF\3\0\0\0" + bytes(64))
    (data / "puzzles.txt").write_text("1234341221434321\n12343412214343..\n")
    shutil.copy(data / "puzzles.txt", data / "puzzles.csv")
    text = f"{TEXTS} --data.path {data / 'input.txt'}"
    runs = {
        "whole": f"{MARKOV} --max-steps 6",
        "run": f"{MARKOV} --max-steps 4",
        "other": f"{MARKOV} --max-steps 4 --run.seed 2",
        "text": f"{text} --max-steps 2",
        "causal": f"{text} --max-steps 2 --method ar",
    }
    for name, options in runs.items():
        command("train", *options.split(), "--out", str(folder / name))
    _subwords(folder / "subwords")
    if complete:
        line = f"{FRONTIER} --judge {{space}}/causal --out {{space}}/frontier"
        command(*line.format(space=folder).split())
        _language_model(folder / "lm")
    return Workspace(folder, complete)


def sampled(run: Path) -> object:
    """What `sample` draws from a run."""
    record = json.loads(command("sample", str(run), "--num", "2", "--steps", "3", "--json"))
    return record["tokens"], record["samples"]


@torch.no_grad()
def predicted(folder: Path) -> str:
    """All that decides what a model samples, as text: its process, representation, tokenizer and logits at a state."""
    model = tl.load(folder)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(2, (2, 8), generator=generator)
    noisy = model.process.corrupt(tokens, torch.tensor([0.3, 0.9]), generator)
    prediction = model.predict(noisy)
    tokenizer = None if model.tokenizer is None else model.tokenizer.to_json()
    logits = hashlib.sha256(next(iter(vars(prediction).values())).numpy().tobytes()).hexdigest()
    return repr((model.process, type(prediction).__name__, logits, tokenizer))


def weights(run: Path) -> dict[str, bytes]:
    """The tensors of the newest checkpoint of a run."""
    newest = max((run / "checkpoints").glob("step_*"))
    return {f"{newest.name}/{file.name}": file.read_bytes() for file in sorted(newest.glob("*.safetensors"))}


def _subwords(folder: Path) -> None:
    """A model that was not trained, with room for a tokenizer of `WORDS` tokens."""
    config = tl.nn.TransformerConfig(WORDS, WORDS, 16, width=16, depth=1, heads=2, condition=8)
    torch.manual_seed(0)
    tl.DiffusionModel(tl.nn.DiT(config), tl.Uniform(WORDS)).save(folder)


def _language_model(folder: Path) -> None:
    """A tiny language model of Hugging Face that reads characters."""
    tokenizers: Any = import_module("tokenizers")
    transformers: Any = import_module("transformers")

    transformers.utils.logging.disable_progress_bar()
    letters = {character: index for index, character in enumerate(["<|endoftext|>", *sorted(set(TEXT))])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(letters, "<|endoftext|>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>").save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"vocab_size": len(letters), "n_positions": 32, "n_embd": 8, "n_layer": 1, "n_head": 1}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)

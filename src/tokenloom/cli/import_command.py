"""`tokenloom import`: a checkpoint of another library becomes a model folder of ours."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.registry import COMMANDS
from tokenloom.models.interop.importing import import_model
from tokenloom.models.store import check_replaceable


@dataclass(frozen=True)
class ImportConfig:
    """A checkpoint and what it does not say itself."""

    source: tyro.conf.Positional[str]
    """A checkpoint file, a folder, or the name of a repository on the Hugging Face Hub."""
    to: Path
    """The folder for the model; a model that is there is replaced."""
    family: str | None = None
    """The family of a file that does not name it, such as mdlm, udlm, duo or sedd."""
    tokenizer: str | None = None
    """A tokenizer in place of the checkpoint's: a kind, a file, a folder or a Hub name."""
    label: int | None = None
    """The class of a network that is conditioned on labels; by default none."""
    raw: bool = False
    """Take the raw weights of a file that also holds their moving average."""
    length: int | None = None
    """Tokens per sequence of a language model of Hugging Face, fewer than it reads."""
    allow: tuple[str, ...] = ()
    """Special tokens that a language model of Hugging Face may predict."""


@COMMANDS.register("import")
def import_command(config: Annotated[ImportConfig, tyro.conf.arg(name="")]) -> None:
    """Turn a checkpoint of another library into a model folder for every command here.

    Known are MDLM, UDLM, Duo, SEDD, GIDD, BD3LM (one block), the paper's own checkpoints, and masked language models of
    Hugging Face.  None of their code is run, and a pickle is read by a reader that builds nothing but tensors.
    """
    check_replaceable(config.to)
    options = {name: getattr(config, name) for name in ("family", "label", "tokenizer", "length", "allow")}
    with Console(stderr=True).status(f"reading {config.source}"):
        found = import_model(config.source, pickles=True, average=not config.raw, **options)
        found.model.save(config.to)
    table = Table(title=f"Imported {config.source}", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in found.report.items():
        table.add_row(name, value)
    console = Console()
    console.print(table)
    console.print(f"Next: tokenloom sample {config.to} --num 4", highlight=False, soft_wrap=True)

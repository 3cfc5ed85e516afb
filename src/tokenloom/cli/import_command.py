"""`tokenloom import`: a checkpoint of another library becomes a model folder of ours."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.registry import COMMANDS
from tokenloom.models.interop.importing import import_model
from tokenloom.models.store import check_replaceable


@COMMANDS.register("import")
def import_command(
    source: Annotated[str, tyro.conf.Positional],
    to: Path,
    family: str | None = None,
    tokenizer: str | None = None,
    label: int | None = None,
    raw: bool = False,
    length: int | None = None,
    allow: tuple[str, ...] = (),
) -> None:
    """Turn a checkpoint of another library into a model folder for every command here.

    Known are MDLM, UDLM, Duo, SEDD, GIDD, BD3LM (one block), the paper's own checkpoints, and masked language models of
    Hugging Face.  None of their code is run, and a pickle is read by a reader that builds nothing but tensors.
    """
    check_replaceable(to)
    with Console(stderr=True).status(f"reading {source}"):
        found = import_model(
            source,
            pickles=True,
            average=not raw,
            family=family,
            label=label,
            tokenizer=tokenizer,
            length=length,
            allow=allow,
        )
        found.model.save(to)
    console = Console()
    table = Table(title=f"Imported {source}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    for name, value in found.report.items():
        table.add_row(name, value)
    console.print(table)
    console.print(f"Next: tokenloom sample {to} --num 4", highlight=False, soft_wrap=True)

"""`tokenloom import`: a checkpoint of another library becomes a model folder of ours."""

from functools import partial

import tyro
from rich.console import Console
from rich.table import Column, Table

from tokenloom.cli.registry import COMMANDS
from tokenloom.models.interop.importing import import_model
from tokenloom.models.store import check_replaceable
from tokenloom.support.display import Display


@COMMANDS.register("import")
def import_command(
    source: tyro.conf.Positional[str],
    to: str,
    family: str | None = None,
    tokenizer: str | None = None,
    label: int | None = None,
    raw: bool = False,
    length: int | None = None,
    allow: tuple[str, ...] = (),
    causal: bool = False,
) -> None:
    """Turn a checkpoint of another library into a model folder for every command here.

    Known are MDLM, UDLM, Duo, SEDD, GIDD, BD3LM (one block), the paper's own checkpoints, and masked language models of
    Hugging Face.  None of their code is run, and a pickle is read by a reader that builds nothing but tensors.

    Args:
        source: A checkpoint file, a folder, or the name of a repository on the Hugging Face Hub.
        to: The folder, or address, for the model; a model that is there is replaced.
        family: The family of a file that does not name it, such as mdlm, udlm, duo or sedd.
        tokenizer: A tokenizer in place of the checkpoint's: a kind, a file, a folder or a Hub name.
        label: The class of a network that is conditioned on labels; by default none.
        raw: Take the raw weights of a file that also holds their moving average.
        length: Tokens per sequence of a language model of Hugging Face, fewer than it reads.
        allow: Special tokens that a language model of Hugging Face may predict.
        causal: Take a model that predicts the next token (Llama, Qwen2, Qwen3; a folder, a GGUF file or smollm2), to
            be trained as a diffusion model with `train --from`; until then it is none.
    """
    check_replaceable(to)
    display = Display()
    with display.status(f"reading {source}"):
        read = partial(import_model, source, pickles=True, average=not raw)
        found = read(family=family, label=label, tokenizer=tokenizer, length=length, allow=allow, causal=causal)
    with display.status(f"writing {found.report['parameters']} parameters to {to}"):
        found.model.save(to)
    columns = (Column(no_wrap=True), Column(overflow="fold"))
    table = Table(*columns, title=f"Imported {source}", title_justify="left", show_header=False)
    for name, value in found.report.items():
        table.add_row(name, value)
    console = Console(markup=False)
    console.print(table)
    begins = "untrained" in (found.model.about.origin or {})
    then = f"train --from {to} --lora 8 --data.path my_text.txt" if begins else f"sample {to} --num 4"
    console.print(f"Next: tokenloom {then}", highlight=False, soft_wrap=True)

"""`tokenloom play`: the playground in the browser."""

import webbrowser
from dataclasses import dataclass, field
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape

from tokenloom.cli.registry import COMMANDS
from tokenloom.support.extras import optional
from tokenloom.support.words import counted
from tokenloom.web.limits import Limits


@dataclass(frozen=True)
class PlayConfig:
    """Models to show, the address, and limits for visitors."""

    models: tyro.conf.Positional[tuple[str, ...]] = ()
    """Bundled names, run folders, model folders or imported models; by default the bundled ones and those in runs/."""
    host: str = "127.0.0.1"
    """The address to listen on; another one than this opens the server to other machines, without a password."""
    port: int = 7337
    """The port; 0 takes a free one."""
    names: tuple[str, ...] = ()
    """Names that this machine may be called by in the browser, beside localhost and its addresses."""
    open: bool = True
    """Open the page in a browser."""
    limits: Limits = field(default_factory=Limits)
    """Limits on one visitor's requests."""


@COMMANDS.register("play")
def play(config: Annotated[PlayConfig, tyro.conf.arg(name="")]) -> None:
    """Watch, touch and understand a denoising in the browser."""
    optional("uvicorn", "play")
    optional("starlette", "play")
    from tokenloom.web import serving
    from tokenloom.web.app import Playground
    from tokenloom.web.library import Library

    console = Console()
    with serving.listen(config.host, config.port) as bound:
        with console.status("loading the models"):
            library = Library(config.models)
            serving.warm_up(library, config.limits)
        url = serving.url_of(bound, config.host)

        def ready() -> None:
            console.print(f"[bold]{url}[/]  {counted(len(library), 'model')}; Ctrl-C ends it", highlight=False)
            if not serving.is_local(config.host):
                sentence = serving.OPEN.format(address=f"{config.host}:{bound.getsockname()[1]}")
                console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
            if config.open:
                webbrowser.open(url)

        serving.Server(Playground(library, config.limits, config.names), ready).run(sockets=[bound])

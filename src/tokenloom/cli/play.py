"""`tokenloom play`: the playground in the browser."""

import webbrowser

import tyro
from rich.console import Console
from rich.markup import escape

from tokenloom.cli.registry import COMMANDS
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.words import counted
from tokenloom.web.requests import Limits


@COMMANDS.register("play")
def play(
    models: tyro.conf.Positional[tuple[str, ...]] = (),
    host: str = "127.0.0.1",
    port: int = 7337,
    names: tuple[str, ...] = (),
    open: bool = True,
    limits: Limits = Limits(),  # noqa: B008
) -> None:
    """Watch, touch and understand a denoising in the browser.

    Args:
        models: Bundled names, run folders, model folders or imported models; by default the bundled ones and those in
            runs/.
        host: The address to listen on; another one than this opens the server to other machines, without a password.
        port: The port; 0 takes a free one.
        names: Names that this machine may be called by in the browser, beside localhost and its addresses.
        open: Open the page in a browser.
        limits: Limits on one visitor's requests.
    """
    optional("uvicorn", "play")
    optional("starlette", "play")
    from tokenloom.web import serving
    from tokenloom.web.app import Playground
    from tokenloom.web.library import Library

    console = Console()
    with serving.listen(host, port) as bound:
        with Display().status("loading the models"):
            library = Library(models)
            serving.warm_up(library, limits)
        url = serving.url_of(bound, host)

        def ready() -> None:
            console.print(f"[bold]{url}[/]  {counted(len(library), 'model')}; Ctrl-C ends it", highlight=False)
            if not serving.is_local(host):
                sentence = serving.OPEN.format(address=f"{host}:{bound.getsockname()[1]}")
                console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
            if open:
                webbrowser.open(url)

        serving.Server(Playground(library, limits, names), ready).run(sockets=[bound])

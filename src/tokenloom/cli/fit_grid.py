"""`tokenloom fit-grid`: where the steps of a model are best spent, measured once and stored with it."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table

from tokenloom.cli.registry import COMMANDS
from tokenloom.drawing.randomness import starting_at
from tokenloom.evaluation.grid_fit import Judged, check_fits, fit_grids
from tokenloom.evaluation.held_out import held_out
from tokenloom.models.bundled import bundled_names
from tokenloom.models.opening import open_run
from tokenloom.models.store import check_replaceable
from tokenloom.support.addresses import is_address
from tokenloom.support.display import Display


@COMMANDS.register("fit-grid")
def fit_grid(
    run: tyro.conf.Positional[str],
    data: str | None = None,
    sequences: Annotated[int, tyro.conf.arg(metavar="N")] = 256,
    seed: int = 0,
    to: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None,
) -> None:
    """Fit the times of the sampling steps to a model, and store them with it; sampling then uses them by default.

    A step that skips too much costs nats. What each possible step costs is measured on half of the held-out sequences,
    and the best grids of 4, 8 and 16 steps follow. The other half judge them: a fitted grid is kept if it is surely
    better than the default. Other numbers of steps interpolate.

    Args:
        run: A run folder, a model folder or the name of a bundled model; RUN@masked fits it under another process.
        data: Held-out data: a path, a Hub name or a kind such as markov; by default what the run held out.
        sequences: Held-out sequences, at least 4.
        seed: Seed of the noise and of the choice of rows.
        to: Write the model here instead of in its own place; a bundled model needs it.
    """
    if sequences < 4:
        raise ValueError(f"--sequences must be at least 4, got {sequences}: half of them judge what the others choose")
    place = run.partition("@")[0]
    if to is None and place in bundled_names():
        raise ValueError(f"{place} is a bundled model, which is not written to; name a folder for a copy with --to")
    display = Display()
    with display.status("loading"):
        opened = open_run(run)
        target = to or _written_to(place, opened.folder)
        check_replaceable(target)
        check_fits(opened.model.process)
        rows, given = held_out(opened, data).draw(sequences, starting_at(seed))
    with display.status("measuring steps"):
        found = fit_grids(opened.model, rows, given, seed, lambda share: display.update("measuring steps", share))
    kept = open_run(place).model if "@" in run else opened.model
    stored = {str(each.steps): list(each.levels) for each in found}
    kept.describe(grids=(kept.about.grids or {}) | {opened.model.process.name: stored})
    with display.status(f"writing {target}"):
        kept.save(target)
    console = Console(markup=False)
    console.print(judged_table(found, opened.name, len(rows)))
    fitted = [str(each.steps) for each in found if each.kept == "fitted"]
    what = (
        f"Fitted grids of {' and '.join(fitted)} steps are" if fitted else "No fitted grid beats the default, which is"
    )
    console.print(f"{what} stored in {target}; tokenloom sample {target} uses it", highlight=False, soft_wrap=True)


def _written_to(place: str, folder: Path) -> str:
    """Return where the model of a run was read from: an address stays one, though a copy was read."""
    if not is_address(place):
        return str(folder)
    inside = folder.name == "model" and not place.rstrip("/").endswith("/model")
    return f"{place.rstrip('/')}/model" if inside else place


def judged_table(found: list[Judged], name: str, rows: int) -> Table:
    """Return a table with a row per grid and a column per number of steps."""
    title = f"{name}: the bound of a chain of so many steps, in nats per token, on {rows - rows // 2} sequences"
    steps = (Column(f"{each.steps} steps", justify="right") for each in found)
    table = Table(Column("grid", no_wrap=True), *steps, title=title, title_justify="left")
    for grid in found[0].bounds:
        table.add_row(grid, *(f"{each.bounds[grid]:.4f}" for each in found), end_section=grid == "fitted")
    table.add_row("kept", *(each.kept for each in found))
    table.add_row("fitted below default", *(f"{each.gain:.4f} ± {1.96 * each.error:.4f}" for each in found))
    return table

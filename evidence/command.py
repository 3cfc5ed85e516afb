"""`tokenloom evidence`: train and measure what is missing, judge the claims and render the page."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from evidence.claim import Claim, Need, Records
from evidence.claims import CLAIMS
from evidence.page import effect_words, write_page
from evidence.results import Task, collect, finish, is_measured, trains
from evidence.runs import Place, Run, is_trained, train_runs
from evidence.settings import MOST, Scale
from tokenloom.cli.ranks import ranks, spread
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import check_writable
from tokenloom.support.words import counted, nearest

FOLDER = Path(__file__).parent
KEPT = FOLDER / "results"
DOCS = FOLDER.parent / "docs"
CLOSING = FOLDER / "closing.md"
"""What the page ends with."""
JUDGE = Run("stories", "judge", 1)
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE")
"""The environment variables that torchrun sets, besides those that begin with TORCHELASTIC."""


def evidence(
    claims: tyro.conf.Positional[tuple[str, ...]] = (),
    scale: Scale = "full",
    out: Path = Path("runs/evidence"),
    results: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    stories: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    setting: tuple[Literal["chain", "stories", "long", "sudoku", "softmax"], ...] = (),
    workers: int = 1,
    cluster: Literal["local", "slurm"] = "local",
) -> None:
    """Test the paper's claims again: train and measure what is missing, print verdicts, render docs/evidence.md.

    Args:
        claims: Claims by name, as in c1 c3; all of them by default.
        scale: full is what the kept results were made with; tiny runs the machinery in minutes and means nothing.
        out: Where networks and points of curves go; what is killed resumes from here.
        results: Where measurements are kept; by default evidence/results of the clone, for tiny a folder of --out.
        stories: A folder with train.txt and valid.txt (or .gz) of TinyStories; only needed to train or measure.
        setting: The data sets to train and measure on; by default all that the claims ask for.
        workers: Processes (or Slurm jobs) to spread the work over, one thread each.
        cluster: local processes, or slurm.
    """
    asked = [_claim(name) for name in claims] or list(CLAIMS.values())
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    optional("matplotlib", "evaluate")
    folder = results or (KEPT if scale == "full" else out / "results")
    for place in (out, folder):
        check_writable(place)
    study = Study(asked, Place(out, scale, stories), folder, setting, workers, cluster)
    study.work()
    if not study.ranks.first:
        return
    records = study.records
    console = Console()
    console.print(verdict_table(asked, records))
    whole = scale == "full" and folder == KEPT and not claims
    page, pictures = (DOCS / "evidence.md", DOCS / "pictures" / "evidence") if whole else (out / "evidence.md", out)
    closing = CLOSING.read_text(encoding="utf-8")
    write_page(asked, records, page, pictures if whole else out / "pictures", closing)
    console.print(f"[dim]{page}, results in {folder}[/]", highlight=False, soft_wrap=True)


def _claim(name: str) -> Claim:
    if name.lower() not in CLAIMS:
        raise ValueError(f"there is no claim {name!r}; {nearest(name, CLAIMS)}")
    return CLAIMS[name.lower()]


class Study:
    """What some claims need, at a place."""

    def __init__(
        self,
        claims: Sequence[Claim],
        place: Place,
        results: Path,
        settings: Sequence[str],
        workers: int,
        cluster: str,
    ) -> None:
        self.claims, self.place, self.results, self.settings = claims, place, results, settings
        self.workers, self.cluster = workers, cluster
        self.ranks = ranks()
        self.display = Display(Console(file=sys.stderr, quiet=not self.ranks.first))

    @property
    def records(self) -> Records:
        """What is kept."""
        return collect(self.claims, self.results)

    def tasks(self) -> list[Task]:
        """The measurements that are missing, seed by seed: those that decide a claim before those beside."""
        seeds = MOST if self.place.scale == "full" else MOST[:1]
        deciding: set[Need] = set().union(*(claim.decisive for claim in self.claims))
        needed = [
            (need not in deciding, seed, need)
            for seed in seeds
            for need in set().union(*(claim.needs(seed) for claim in self.claims))
            if not self.settings or need[0] in self.settings
        ]
        every = [(Run(setting, arm, seed), measure) for _, seed, (setting, arm, measure) in sorted(needed)]
        return [task for task in every if not is_measured(task, self.place, self.results)]

    def judges(self, tasks: Sequence[Task]) -> list[Run]:
        """The judge of stories, where it is missing and asked for."""
        judged = any(run.setting == "stories" and measure.startswith("curve") for run, measure in tasks)
        return [run for run in (JUDGE,) if judged and not is_trained(run, self.place)]

    def work(self) -> None:
        """Train and measure, network by network."""
        with self.ranks.together(), self.display.status("looking for what is missing"):
            tasks = self.tasks()
            if self.place.stories is None and any(run.setting == "stories" for run, _ in tasks):
                raise ValueError(
                    "the claims on stories need its text: name a folder with train.txt and valid.txt by --stories"
                )
            measures: dict[Run, list[str]] = {}
            for run, measure in tasks:
                measures.setdefault(run, []).append(measure)
            for run in filter(trains, measures):
                self.place.rate(run)  # raises where no pilot chose one, before anything is trained
            self._spread(partial(train_runs, place=self.place), self.judges(tasks))
            self._spread(partial(finish, place=self.place, folder=self.results), list(measures.items()))

    def _spread(self, work: partial[int], items: Sequence[Any]) -> None:
        if not items:
            return
        self.display.update(f"training and measuring {counted(len(items), 'network')}", 0.0)
        if self.ranks.count > 1:
            with on_its_own():  # each process trains networks of its own
                work(items[self.ranks.rank :: self.ranks.count])
            self.ranks.wait()
            return
        if self.workers > 1 or self.cluster == "slurm":
            spread(work, items, self.place.folder / "jobs", self.workers, self.cluster)
            return
        for done, item in enumerate(items):
            name = item.name if isinstance(item, Run) else item[0].name
            self.display.update(f"training and measuring {done + 1} of {len(items)}: {name}", done / len(items))
            work([item])


def verdict_table(claims: Sequence[Claim], records: Records) -> Table:
    """The verdicts, one row per comparison."""
    table = Table(title="The claims", title_justify="left")
    for column in ("claim", "comparison", "data", "effect ± 95%", "verdict"):
        table.add_column(column, overflow="fold")
    for claim in claims:
        table.add_row(claim.name.upper(), claim.title, "", "", f"[bold]{claim.verdict(records)}[/]")
        for part, verdict in zip(claim.comparisons, claim.verdicts(records), strict=True):
            role = "" if part.role == "claim" else f" ({part.role})"
            table.add_row("", f"{part.what}{role}", part.setting, effect_words(part, records), verdict, style="dim")
    return table


@contextmanager
def on_its_own() -> Iterator[None]:
    """Hide the other ranks inside the block, for work that would otherwise join them."""
    names = [name for name in os.environ if name in VARIABLES or name.startswith("TORCHELASTIC")]
    hidden = {name: os.environ.pop(name) for name in names}
    try:
        yield
    finally:
        os.environ.update(hidden)

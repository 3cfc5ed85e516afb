"""One sampling as a stream of frames.

    {"kind": "start", ...}     what will be drawn, and the lines of Python that draw the same
    {"kind": "frame", ...}     one state: the first whole, the others as what changed since the last
    {"kind": "end", ...}       the tokens and what they cost

A frame is written after every step, where the job's `stop` and the time limit are looked at too: so a stop ends the
work within one step.
"""

import time
from dataclasses import replace
from typing import Any

import torch

from tokenloom.drawing.randomness import RowGenerators
from tokenloom.evaluation.sizes import check_sampling
from tokenloom.models.model import DiffusionModel
from tokenloom.samplers import Sampler, Step
from tokenloom.samplers.run import length_of
from tokenloom.state import Noisy
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.solving import Outcome, Solver, obeys, solve_puzzles
from tokenloom.sudoku.text import SIDES
from tokenloom.web.library import Entry
from tokenloom.web.limits import Limits, check_within
from tokenloom.web.pieces import Pieces
from tokenloom.web.python_lines import python_lines
from tokenloom.web.requests import Draw
from tokenloom.web.states import given_of, noisy_of, shown_noised
from tokenloom.web.workers import Job, StoppedError


class Frames:
    """Writes the first row of every step to a job."""

    def __init__(self, job: Job, pieces: Pieces, limits: Limits) -> None:
        self.job, self.pieces, self.limits = job, pieces, limits
        self.began = time.monotonic()
        self.attempt = 1
        self._last: Noisy | None = None

    def __call__(self, step: Step) -> None:
        """Write one step, and end the run where it has to."""
        if self.job.stop.is_set():
            raise StoppedError
        if time.monotonic() - self.began > self.limits.seconds:
            raise ValueError(
                f"this took longer than {self.limits.seconds} seconds, the limit here; take fewer steps or shorter text"
            )
        if self._last is None or step.before is not self._last:  # another try begins
            self.write(step.before, step.index - 1, step.count, 0)
        self.write(step.after, step.index, step.count, int(step.evaluations[0]))

    def write(self, noisy: Noisy, index: int, count: int, evaluations: int) -> None:
        """Write one state, as what changed since the last one where there was one."""
        before, row = self._last, noisy.tokens[0].tolist()
        line: dict[str, Any] = {"kind": "frame", "index": index, "count": count, "evaluations": evaluations}
        line |= {"t": float(noisy.t[0]), "alpha": float(noisy.alpha_t[0]), "try": self.attempt}
        if before is None or index == 0:
            line["tokens"], line["aux"] = row, _auxiliary(noisy)
            line["marked"] = [] if noisy.given is None else noisy.given[0].nonzero().flatten().tolist()
        else:
            changed = (noisy.tokens[0] != before.tokens[0]).nonzero().flatten().tolist()
            line["changes"] = [[position, row[position]] for position in changed]
            if noisy.aux is not None and before.aux is not None and not torch.equal(noisy.aux[0], before.aux[0]):
                line["aux"] = _auxiliary(noisy)
        line["pieces"] = self.pieces.new(row)
        self._last = noisy
        self.job.write(line)


def _auxiliary(noisy: Noisy) -> list[float] | None:
    return None if noisy.aux is None else noisy.aux[0].tolist()


def draw(request: Draw, entry: Entry, limits: Limits, job: Job) -> None:
    """Draw what is asked for, frame by frame."""
    run = entry.run(request.process)
    settings, model = request.sampling, run.model
    check_within("steps", settings.steps, limits.steps, "take fewer")
    if not 0 <= request.tries <= limits.tries:
        raise ValueError(f"tries must be in 0..{limits.tries} here, got {request.tries}; take fewer")
    wanted = len(request.begin.tokens) if request.begin is not None else request.length
    length = length_of(model, wanted)
    check_within("length", length, min(limits.length, model.length or limits.length), "draw a shorter sequence")
    check_sampling(model, 1, 1, settings.steps, length)
    sampler, warning = settings.sampler_value(), shown_noised(model, bool(request.held))
    if warning is not None:
        sampler = replace(sampler, show_given="noised")
    process = model.process.name
    lines = python_lines(request, sampler, entry.loadable(process), length)
    job.write({"kind": "start", "length": length, "note": warning, "python": lines, "seed": request.seed})
    frames = Frames(job, Pieces(entry.decoder), limits)
    result = (_solve if request.tries else _draw_once)(request, model, sampler, length, frames)
    job.write({"kind": "end"} | result | {"seconds": round(time.monotonic() - frames.began, 3)})


def _draw_once(request: Draw, model: DiffusionModel, sampler: Sampler, length: int, frames: Frames) -> dict[str, Any]:
    prepared = sampler.for_model(model).predictor.prepare(model)
    begin = None if request.begin is None else noisy_of(request.begin, prepared)
    run = sampler.steps(
        model, 1, length=length, given=given_of(request, length), generator=RowGenerators([request.seed]), begin=begin
    )
    for step in run:
        frames(step)
    samples = run.samples
    return {"tokens": samples.tokens[0].tolist(), "evaluations": int(samples.evaluations[0])}


def _solve(request: Draw, model: DiffusionModel, sampler: Sampler, length: int, frames: Frames) -> dict[str, Any]:
    """Draw until a grid obeys the rules, as `tokenloom solve` does."""
    if length not in SIDES or SIDES[length] != model.process.vocab_size:
        raise ValueError(f"a Sudoku has 16, 36 or 81 cells, but this model draws {length} tokens; draw once instead")
    if request.begin is not None:
        raise ValueError("a puzzle is solved from its givens; draw once to continue from a step")
    puzzle = torch.full((1, length), BLANK)
    given = given_of(request, length)
    if given is not None:
        model.process.check_clean(given[0].unsqueeze(0))
        puzzle[0] = torch.where(given[1], given[0], BLANK)

    def next_try(outcomes: list[Outcome | None]) -> None:
        done = outcomes[0]
        frames.attempt = 1 + (0 if done is None else done.tries)

    solver = Solver(sampler, request.tries, request.seed)
    outcome = solve_puzzles(model, puzzle, solver, frames, next_try)[0]
    grid = torch.tensor([outcome.grid])
    return {
        "tokens": list(outcome.grid),
        "evaluations": outcome.evaluations,
        "solved": outcome.solved and bool(obeys(grid, puzzle)[0]),
        "tries": outcome.tries,
    }

"""One sampling as a stream of frames.

    {"kind": "start", ...}     what will be drawn, and the lines of Python that draw the same
    {"kind": "frame", ...}     one state: the first whole, the others as what changed since the last
    {"kind": "end", ...}       the tokens and what they cost

A frame is written after every step, where the job's `stop` and the time limit are checked too: so a stop ends the
work within one step.
"""

import time
from dataclasses import replace
from typing import Any

import torch

from tokenloom.data.decoder import Decoder
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.posteriors import Denoiser
from tokenloom.samplers import Sampler, Step
from tokenloom.samplers.given import BIASED
from tokenloom.samplers.run import length_of
from tokenloom.state import Noisy
from tokenloom.web.library import Entry
from tokenloom.web.requests import Draw, Limits, State, check_within
from tokenloom.web.views import View
from tokenloom.web.workers import Job


class Frames:
    """Writes the first row of every step to a job."""

    def __init__(self, job: Job, decoder: Decoder, limits: Limits) -> None:
        self.job, self.decoder, self.limits = job, decoder, limits
        self.began, self.attempt = time.monotonic(), 1
        self._last: Noisy | None = None
        self._seen: set[int] = set()

    def __call__(self, step: Step) -> None:
        """Write one step; end the run if its reader is gone or its time is up."""
        if self.job.stop.is_set():
            raise ValueError("this drawing was stopped")
        if time.monotonic() - self.began > (limit := self.limits.seconds):
            raise ValueError(f"this took longer than {limit} seconds, the limit here; take fewer steps or shorter text")
        if step.before is not self._last:  # the first step of a try
            self.write(step.before, step.index - 1, step.count, 0)
        self.write(step.after, step.index, step.count, int(step.evaluations[0]))

    def next_try(self, attempt: int) -> None:
        """Number the frames that follow."""
        self.attempt = attempt

    def write(self, noisy: Noisy, index: int, count: int, evaluations: int) -> None:
        """Write one state, as what changed since the last one where there was one."""
        before, row = self._last, noisy.tokens[0].tolist()
        line: dict[str, Any] = {"kind": "frame", "index": index, "count": count, "evaluations": evaluations}
        line |= {"t": float(noisy.t[0]), "alpha": float(noisy.alpha_t[0]), "try": self.attempt}
        aux = None if noisy.aux is None else noisy.aux[0].tolist()
        if before is None or index == 0:
            line["tokens"], line["aux"] = row, aux
            line["marked"] = [] if noisy.given is None else noisy.given[0].nonzero().flatten().tolist()
        else:
            changed = (noisy.tokens[0] != before.tokens[0]).nonzero().flatten().tolist()
            line["changes"] = [[position, row[position]] for position in changed]
            if noisy.aux is not None and before.aux is not None and not torch.equal(noisy.aux[0], before.aux[0]):
                line["aux"] = aux
        new = set(row) - self._seen  # the text of a token is sent once, however often the token occurs
        line["pieces"] = {str(token): self.decoder.piece(token) for token in sorted(new)}
        self._seen |= new
        self._last = noisy
        self.job.write(line)


def draw(request: Draw, entry: Entry, limits: Limits, job: Job) -> None:
    """Draw what is asked for, frame by frame."""
    settings, model = request.sampling, entry.model(request.process)
    check_within("steps", settings.steps, limits.steps, "take fewer")
    check_within("tries", request.tries, limits.tries, "take fewer", least=0)
    length = length_of(model, len(request.begin.tokens) if request.begin is not None else request.length)
    check_within("length", length, limits.longest(model.length), "draw a shorter sequence")
    settings.check_memory(model, 1, 1, length)
    sampler, note = settings.sampler_value(), None
    if request.held and not (model.causal or model.marks_given or model.process.reveals):
        sampler, note = replace(sampler, show_given="noised"), BIASED
    name = entry.name if model is entry.model() else f"{entry.name}@{model.process.name}"
    lines = python_lines(request, sampler, name, length, entry.view)
    job.write({"kind": "start", "length": length, "note": note, "python": lines, "seed": request.seed})
    frames, given = Frames(job, entry.decoder, limits), request.given(length)
    if request.tries:
        result = entry.view.solve(model, sampler, request, given, frames, frames.next_try)
    else:
        prepared, held = sampler.for_model(model).predictor.prepare(model), given if request.held else None
        begin = None if request.begin is None else request.begin.noisy(prepared)
        own = RowGenerators([request.seed])
        samples = sampler.run(model, 1, length=length, given=held, generator=own, begin=begin, on_step=frames)
        result = {"tokens": samples.tokens[0].tolist(), "evaluations": int(samples.evaluations[0])}
    job.write({"kind": "end"} | result | {"seconds": round(time.monotonic() - frames.began, 3)})


def python_lines(request: Draw, sampler: Sampler, name: str, length: int, view: View) -> str:
    """Return a program that leaves the same sequence in `tokens`; a view writes the one that solves."""
    settings = _settings(request.sampling.kernels, sampler)
    if request.tries:
        return view.program(request, settings, name, length)
    lines, options = ["import tokenloom as tl", f"model = tl.load({name!r})"], [f"length={length}"]
    if request.held or request.begin is not None:
        lines.insert(0, "import torch")
    if request.held:
        tokens = f"torch.tensor([held.get(i, 0) for i in range({length})])"
        flags = f"torch.tensor([i in held for i in range({length})])"
        lines += [f"held = {dict(request.held)!r}", f"given = {tokens}, {flags}"]
        options.append("given=given")
    if request.begin is not None:
        lines += _beginning(request.begin)
        options.append("begin=begin")
    options.append(f"generator=tl.RowGenerators([{request.seed}])")
    lines.append(f"tokens = tl.Sampler.parse({settings}).run(model, 1, {', '.join(options)}).tokens")
    return "\n".join(lines) + "\n"


def _settings(kernels: str, sampler: Sampler) -> str:
    """Return the arguments of `tl.Sampler.parse`, without those that have their default."""
    parts = [repr(kernels), f"steps={sampler.steps}"]
    if sampler.on is Denoiser and not sampler.changes_nothing:
        parts.append("on=tl.Denoiser")
    for name in ("temperature", "top_p", "top_k", "grid", "show_given"):
        if (value := getattr(sampler, name)) != getattr(Sampler, name):
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)


def _beginning(state: State) -> list[str]:
    """Return the lines of the state to continue from; its auxiliary variable is int64 where it holds tokens."""
    parts = [f"torch.tensor([{list(state.tokens)!r}])", "t", "model.process.alpha(t)"]
    if state.aux is not None:
        whole = all(float(value).is_integer() for value in state.aux)
        values = [int(value) for value in state.aux] if whole else list(state.aux)
        parts.append(f"torch.tensor([{values!r}]" + ("" if whole else ", dtype=torch.float64") + ")")
    return [f"t = torch.tensor([{state.t!r}], dtype=torch.float64)", f"begin = tl.Noisy({', '.join(parts)})"]

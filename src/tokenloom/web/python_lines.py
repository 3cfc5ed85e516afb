"""The lines of Python that draw what the page draws."""

from tokenloom.posteriors import Denoiser
from tokenloom.samplers import Sampler
from tokenloom.web.requests import Draw, State
from tokenloom.web.views import View

SHOWN = {"temperature": 1.0, "top_p": 1.0, "top_k": None}
"""Settings of a truncation that are left out where they have these values."""


def python_lines(request: Draw, sampler: Sampler, name: str, length: int, view: View | None = None) -> str:
    """Return a program that leaves the same sequence in `tokens`; a view writes the one that solves."""
    settings = _settings(request, sampler)
    if view is not None:
        return view.program(request, settings, name, length)
    lines, options = ["import tokenloom as tl"], [f"length={length}"]
    if request.held or request.begin is not None:
        lines.insert(0, "import torch")
    lines.append(f"model = tl.load({name!r})")
    if request.held:
        lines.append(f"held = {dict(request.held)!r}")
        lines.append(f"given = torch.tensor([held.get(i, 0) for i in range({length})]), ")
        lines[-1] += f"torch.tensor([i in held for i in range({length})])"
        options.append("given=given")
    if request.begin is not None:
        lines += _beginning(request.begin)
        options.append("begin=begin")
    options.append(f"generator=tl.RowGenerators([{request.seed}])")
    lines.append(f"tokens = tl.Sampler.parse({settings}).run(model, 1, {', '.join(options)}).tokens")
    return "\n".join(lines) + "\n"


def _settings(request: Draw, sampler: Sampler) -> str:
    asked = request.sampling
    parts = [repr(asked.kernels), f"steps={asked.steps}"]
    parts += [f"{key}={getattr(asked, key)!r}" for key, usual in SHOWN.items() if getattr(asked, key) != usual]
    if sampler.on is Denoiser and not sampler.changes_nothing:
        parts.append("on=tl.Denoiser")
    if asked.grid != "uniform":
        parts.append(f"grid={asked.grid!r}")
    if sampler.show_given != "auto":
        parts.append(f"show_given={sampler.show_given!r}")
    return ", ".join(parts)


def _beginning(state: State) -> list[str]:
    """Return the lines of the state to continue from; its auxiliary variable is int64 where it holds tokens."""
    parts = [f"torch.tensor([{list(state.tokens)!r}])", "t", "model.process.alpha(t)"]
    if state.aux is not None:
        whole = all(float(value).is_integer() for value in state.aux)
        values = [int(value) for value in state.aux] if whole else list(state.aux)
        parts.append(f"torch.tensor([{values!r}]" + ("" if whole else ", dtype=torch.float64") + ")")
    return [f"t = torch.tensor([{state.t!r}], dtype=torch.float64)", f"begin = tl.Noisy({', '.join(parts)})"]

"""The lines of Python that draw what the page draws."""

from tokenloom.posteriors import Denoiser
from tokenloom.samplers import Sampler
from tokenloom.sudoku.text import format_grid
from tokenloom.web.requests import Draw, State

SHOWN = {"temperature": 1.0, "top_p": 1.0, "top_k": None}
"""Settings of a truncation that are left out where they have these values."""


def python_lines(request: Draw, sampler: Sampler, name: str, length: int) -> str:
    """A program that leaves the same sequence in `tokens`."""
    settings = _settings(request, sampler)
    if request.tries:
        return _solving(request, settings, name, length)
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
    parts = [repr(asked.kernels)]
    parts.append(f"steps={asked.steps}")
    parts += [f"{key}={getattr(asked, key)!r}" for key, usual in SHOWN.items() if getattr(asked, key) != usual]
    if sampler.on is Denoiser and not sampler.changes_nothing:
        parts.append("on=tl.Denoiser")
    if asked.grid != "uniform":
        parts.append(f"grid={asked.grid!r}")
    if sampler.show_given != "auto":
        parts.append(f"show_given={sampler.show_given!r}")
    return ", ".join(parts)


def _beginning(state: State) -> list[str]:
    """The state to continue from, whose auxiliary variable is whole where the process has tokens in it."""
    lines = [f"t = torch.tensor([{state.t!r}], dtype=torch.float64)"]
    parts = [f"torch.tensor([{list(state.tokens)!r}])", "t", "model.process.alpha(t)"]
    if state.aux is not None:
        whole = all(float(value).is_integer() for value in state.aux)
        values = [int(value) for value in state.aux] if whole else list(state.aux)
        parts.append(f"torch.tensor([{values!r}]" + ("" if whole else ", dtype=torch.float64") + ")")
    return [*lines, f"begin = tl.Noisy({', '.join(parts)})"]


def _solving(request: Draw, settings: str, name: str, length: int) -> str:
    held = dict(request.held)
    puzzle = format_grid([held.get(position, -1) for position in range(length)])
    return "\n".join(
        [
            "import tokenloom as tl",
            "from tokenloom.sudoku.solving import Solver, solve_puzzles",
            "from tokenloom.sudoku.text import parse_puzzles",
            f"model, puzzle = tl.load({name!r}), parse_puzzles([{puzzle!r}])",
            f"solver = Solver(tl.Sampler.parse({settings}), tries={request.tries}, seed={request.seed})",
            "tokens = solve_puzzles(model, puzzle, solver)[0].grid",
            "",
        ]
    )

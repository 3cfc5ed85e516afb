"""Does a kernel sample what it says?  Against a table whose law is known, at the options it was built with."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from tokenloom.cells import AbsorbingUniform, Hybrid, Masked, MaskedUniform, MaxCoupling, Uniform
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.oracles.exact import Oracle
from tokenloom.process import Process
from tokenloom.samplers.kernel import Corrector, Predictor
from tokenloom.samplers.sampler import Sampler
from tokenloom.testing.processes import table_for
from tokenloom.testing.report import Report

ROWS, STEPS, TOKENS = 4000, 64, 3
EQUAL = 0.9
"""The probability that all tokens of a row are equal: what a kernel forgets of their joint law shows at once."""
BIAS = 0.06
"""The bias allowed after `STEPS` steps: a sampler whose error falls like n^-1/2 has as much."""


def check_sampler(kernel: Predictor | Corrector, process: Process | None = None, seed: int = 0) -> Report:
    """Check a predictor, or a corrector beside ancestral steps, on two correlated tokens.

    Where the kernel is `exact`, its samples have the law of the table, up to `BIAS` and the noise of `ROWS` draws.
    False alarms are rarer than 1e-4.  By default the process is the first of six that the kernel supports.
    """
    known = (kind(TOKENS) for kind in (Uniform, Masked, AbsorbingUniform, MaxCoupling, MaskedUniform, Hybrid))
    process = process or next((found for found in known if kernel.supports(found)), None)
    if process is None:
        raise ValueError(f"{kernel.name} supports none of the processes it could be checked with; pass one")
    report = Report(f"sampler {kernel.name} under {process.title}")
    table = _correlated(process)
    model = Oracle(table, process)
    if isinstance(kernel, Predictor):
        sampler = Sampler(kernel, steps=STEPS, show_given="clean")
    else:
        sampler = Sampler(corrector=kernel, steps=STEPS + (STEPS - 1) * kernel.evaluations, show_given="clean")
    spawn = RowGenerators.spawn
    together, again, alone = (sampler.run(model, rows, generator=spawn(seed, rows)).tokens for rows in (8, 8, 1))
    report.note("a row does not depend on its batch", bool((together[0] == alone[0]).all()))
    report.note("the same seeds draw the same tokens", bool((together == again).all()))
    held = torch.full((table.ndim,), int(table.sum(tuple(range(1, table.ndim))).argmax()))
    drawn = sampler.run(model, 8, given=(held, torch.arange(table.ndim) == 0), generator=spawn(1, 8))
    report.note("given tokens come back unchanged", bool((drawn.tokens[:, 0] == held[0]).all()))
    if isinstance(kernel, Predictor) and kernel.ends_predicted:
        forbidden = replace(sampler, forbid=(int(held[0]),)).run(model, 8, generator=spawn(2, 8))
        report.note("a forbidden token never comes out", not bool((forbidden.tokens == held[0]).any()))
    if kernel.exact:
        _check_law(sampler, model, table, report, seed)
    return report


def _check_law(sampler: Sampler, model: Oracle, table: Tensor, report: Report, seed: int) -> None:
    drawn = sampler.run(model, ROWS, generator=torch.Generator().manual_seed(seed)).tokens
    each = torch.full((ROWS,), 1 / ROWS, dtype=table.dtype)
    found = torch.zeros_like(table).index_put(drawn.unbind(1), each, accumulate=True)
    distance = float((found - table).abs().sum()) / 2
    allowed = math.sqrt(table.numel() / (2 * math.pi * ROWS)) + 4 / math.sqrt(4 * ROWS) + BIAS
    why = f"total variation {distance:.3f} from p_0, {allowed:.3f} is allowed; say in `exact` that it is not"
    report.note("it calls itself exact, and samples p_0", distance < allowed, why)


def _correlated(process: Process) -> Tensor:
    """Build a law of two tokens (or as many as the noise has laws) that are mostly equal."""
    base = table_for(process)
    possible = base.sum(tuple(range(1, base.ndim))).nonzero()[:, 0]
    equal = torch.zeros_like(base)
    equal[(possible,) * base.ndim] = 1 / len(possible)
    return EQUAL * equal + (1 - EQUAL) * base

"""docs/evidence.md from the results: a table of verdicts, then a picture, a table and a paragraph per claim."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from evidence.claim import Claim, Comparison, Records
from evidence.verdicts import Overall, tally

INTRODUCTION = """\
# The paper's claims, tested again

The paper's experiments took thousands of hours of H100s. Its claims can be tested on two cores as well, and in one
respect better: on a Markov chain the entropy and every posterior are exact, so a bound has a true zero and a sample a
perfect judge. All networks of a comparison have the same number of optimiser steps, batch and data order, and are
compared seed by seed on the same rows and noise: 8 seeds on the chain, 5 on text, which is TinyStories in 2,048 tokens,
and 5 on Sudoku. On chain and text every method has the better of two learning rates, which a pilot on another seed
chose, and the same network, to which it adds what it needs. Samplers are compared at equal network evaluations, which
are counted. The criteria (`evidence/claims`) were written before the runs: commit 777e9a0 has them before any run on
text, Sudoku and long sequences, and together with the results of the chain. `evidence/results` has every figure. C1 to
C7 are the paper's claims, C8 to C13 our own.
"""

COMMAND = """\
An effect is how much better the favoured side is: its mean over seeds ± half of its 95% interval. The interval covers
what differs between seeds and, where all seeds are measured on the same rows, the choice of these rows (degrees of
freedom by Welch and Satterthwaite). The comparisons that decide a claim are judged together, by Holm's procedure at 5%:
an interval alone may satisfy its criterion while the comparison is undecided. Those marked remedy or context are judged
alone and do not decide. A claim *holds* if all of its parts do, *in part* if some do, and *does not hold* if none does
and one is contradicted.

A bound is the strict one, with its reconstruction and prior terms. What papers report, the integral from t = 0.001 on
alone, stands beside it as *truncated integral*. On the chain a bound is measured against the exact posteriors on the
same states, to which is added what even these pay above the entropy.

This page is rendered from the kept results, and a test renders it again. `tokenloom evidence` trains and measures what
is missing, with `--results FOLDER` everything anew; `--workers` and `--cluster slurm` spread the work.
`python -m evidence.pilot` chooses the learning rates first.

```sh
python -m evidence.pilot --stories tinystories/       # learning rates
tokenloom evidence --stories tinystories/             # what is missing, then this page
tokenloom evidence c9 c13 --scale tiny --out /tmp/evidence    # the machinery, in minutes
```
"""

WORDS: Mapping[Overall, str] = {
    "holds": "**holds**",
    "does not hold": "**does not hold**",
    "holds in part": "**holds in part**",
    "undecided": "undecided",
}
NAMES = {
    "chain": "Markov chain",
    "stories": "TinyStories",
    "long": "Markov chain, 256 tokens",
    "sudoku": "Sudoku",
    "softmax": "one softmax",
}


def number(value: float, digits: int = 3) -> str:
    """A number with a sign where it is below 0; a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def effect_words(comparison: Comparison, records: Records) -> str:
    """An effect with half of its interval."""
    effect = comparison.effect(records)
    if not effect.by_seed:
        return "not measured"
    digits = 4 if abs(effect.mean) < 0.01 else 3
    note = comparison.note(records)
    return f"{number(effect.mean, digits)} ± {number(effect.half_width, digits)}" + (f" ({note})" if note else "")


def verdict_words(claim: Claim, records: Records) -> str:
    """The verdict on a claim, and how many of its parts hold."""
    missing = sum(not part.effect(records).by_seed for part in claim.deciding)
    if missing == len(claim.deciding):
        return "not measured"
    found = tally(claim.decided(records))
    if missing:
        return f"open: {found}, {missing} {'is' if missing == 1 else 'are'} not measured yet"
    return f"{WORDS[claim.verdict(records)]}: {found}"


def render(claims: Sequence[Claim], records: Records, pictures: str, closing: str) -> str:
    """The page; `pictures` is the folder of pictures as links name it, `closing` what follows the claims."""
    parts = [INTRODUCTION, _summary(claims, records), COMMAND]
    parts += [_section(claim, records, pictures) for claim in claims]
    return "\n".join([*parts, closing])


def _summary(claims: Sequence[Claim], records: Records) -> str:
    lines: list[str] = []
    for title, ours in (("The paper's claims", False), ("Our own claims", True)):
        some = [claim for claim in claims if claim.ours == ours]
        lines += [f"{title}:", "", *_rows(some, records), ""] if some else []
    return "\n".join(lines)


def _rows(claims: Sequence[Claim], records: Records) -> list[str]:
    lines = ["| | claim | verdict | effect ± 95% | seeds |", "|---|---|---|---|---|"]
    for claim in claims:
        first = _first_of_each(claim.deciding)
        effects = "; ".join(f"{NAMES[part.setting]} {effect_words(part, records)}" for part in first)
        seeds = ", ".join(sorted({str(len(part.effect(records).by_seed)) for part in claim.deciding}))
        link = f"[{claim.name.upper()}](#{claim.name})"
        lines.append(f"| {link} | {claim.title} | {verdict_words(claim, records)} | {effects} | {seeds} |")
    return lines


def _first_of_each(parts: Sequence[Comparison]) -> list[Comparison]:
    """The first comparison on every data set."""
    return list({part.setting: part for part in reversed(parts)}.values())[::-1]


def _section(claim: Claim, records: Records, pictures: str) -> str:
    lines = [f"## {claim.name.upper()}. {claim.title} {{ #{claim.name} }}", "", f"*{claim.source}.* {claim.run}", ""]
    lines += [f"![{claim.title}: the figures of every seed]({pictures}/{claim.name}.svg)", ""]
    lines += ["| comparison | data | ours ± 95% | the paper's | unit | criterion | |", "|---|---|---|---|---|---|---|"]
    for part, verdict in zip(claim.comparisons, claim.verdicts(records), strict=True):
        role = "" if part.role == "claim" else f" ({part.role})"
        lines.append(
            f"| {part.what}{role} | {NAMES[part.setting]} | {effect_words(part, records)} | {part.paper or '-'} "
            f"| {part.unit} | {part.criterion.words} | {verdict} |"
        )
    lines += ["", f"Found: {verdict_words(claim, records)}. {claim.found}"]
    lines += ["", f"*Not shown.* {claim.limits}", ""]
    return "\n".join(lines)


def write_page(claims: Sequence[Claim], records: Records, page: Path, pictures: Path, closing: str) -> None:
    """The page and its pictures."""
    pictures.mkdir(parents=True, exist_ok=True)
    for claim in claims:
        claim.picture.draw(records, pictures / f"{claim.name}.svg")
    link = pictures.relative_to(page.parent).as_posix()
    page.write_text(render(claims, records, link, closing), encoding="utf-8")

"""docs/evidence.md from the results: a table of verdicts, then a picture, a table and a paragraph per claim."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from evidence.claim import Claim, Comparison, Records
from evidence.verdicts import Verdict

INTRODUCTION = """\
# The paper's claims, tested again

The paper's experiments took thousands of hours of H100s. Its claims can be tested on two cores as well, and in one
respect better: on a Markov chain the entropy and every posterior are exact, so a bound has a true zero and a sample a
perfect judge. All networks of a comparison have the same number of optimiser steps, batch, data order and, within 5%,
parameters, and are compared seed by seed on the same rows and noise. The criteria were written before the runs;
`evidence/claims` has them, `evidence/results` every figure.
"""

COMMAND = """\
An effect is how much better the favoured side is, mean over seeds ± half of its 95% interval (Student's t over seeds).
*Holds* means that the interval of every comparison of the claim satisfies its criterion, *does not hold* that one of
them contradicts it, *undecided* anything else. This page is rendered from the kept results, and a test renders it
again. `tokenloom evidence` trains and measures what is missing, with `--results FOLDER` everything anew; `--workers`
and `--cluster slurm` spread the work.

```sh
tokenloom evidence --text8 text8/          # what is missing, then this page
tokenloom evidence c1 c3 --scale tiny --text8 text8/ --out /tmp/evidence    # the machinery, in minutes
```
"""

WORDS: Mapping[Verdict, str] = {"holds": "**holds**", "does not hold": "**does not hold**", "undecided": "undecided"}
NAMES = {"markov": "Markov chain", "text8": "text8", "sudoku": "Sudoku", "softmax": "one softmax"}


def number(value: float, digits: int = 3) -> str:
    """A number with a sign where it is below 0; a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def effect_words(comparison: Comparison, records: Records) -> str:
    """An effect with half of its interval."""
    effect = comparison.effect(records)
    if not effect.by_seed:
        return "not measured"
    digits = 4 if abs(effect.mean) < 0.01 else 3
    return f"{number(effect.mean, digits)} ± {number(effect.half_width, digits)}"


def render(claims: Sequence[Claim], records: Records, pictures: str, closing: str) -> str:
    """The page; `pictures` is the folder of pictures as links name it, `closing` what follows the claims."""
    parts = [INTRODUCTION, _summary(claims, records), COMMAND]
    parts += [_section(claim, records, pictures) for claim in claims]
    return "\n".join([*parts, closing])


def _summary(claims: Sequence[Claim], records: Records) -> str:
    lines = ["| | claim | verdict | effect ± 95% | seeds |", "|---|---|---|---|---|"]
    for claim in claims:
        deciding = [part for part in claim.comparisons if part.role == "claim"]
        effects = "; ".join(f"{NAMES[part.setting]} {effect_words(part, records)}" for part in _first_of_each(deciding))
        seeds = min(len(part.effect(records).by_seed) for part in deciding)
        link = f"[{claim.name.upper()}](#{claim.name})"
        lines.append(f"| {link} | {claim.title} | {WORDS[claim.verdict(records)]} | {effects} | {seeds} |")
    return "\n".join([*lines, ""])


def _first_of_each(parts: Sequence[Comparison]) -> list[Comparison]:
    """The first comparison on every data set."""
    return list({part.setting: part for part in reversed(parts)}.values())[::-1]


def _section(claim: Claim, records: Records, pictures: str) -> str:
    lines = [f"## {claim.name.upper()}. {claim.title} {{ #{claim.name} }}", "", f"*{claim.source}.* {claim.run}", ""]
    lines += [f"![{claim.title}: the figures of every seed]({pictures}/{claim.name}.svg)", ""]
    lines += ["| comparison | data | effect ± 95% | unit | criterion | |", "|---|---|---|---|---|---|"]
    for part in claim.comparisons:
        role = "" if part.role == "claim" else f" ({part.role})"
        lines.append(
            f"| {part.what}{role} | {NAMES[part.setting]} | {effect_words(part, records)} | {part.unit} "
            f"| {part.criterion.words} | {part.verdict(records)} |"
        )
    lines += ["", f"**Found: {claim.verdict(records)}.** {claim.found}", "", f"*Not shown.* {claim.limits}", ""]
    return "\n".join(lines)


def write_page(claims: Sequence[Claim], records: Records, page: Path, pictures: Path, closing: str) -> None:
    """The page and its pictures."""
    pictures.mkdir(parents=True, exist_ok=True)
    for claim in claims:
        claim.picture.draw(records, pictures / f"{claim.name}.svg")
    link = pictures.relative_to(page.parent).as_posix()
    page.write_text(render(claims, records, link, closing), encoding="utf-8")

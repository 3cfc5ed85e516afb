"""The table of an attack, and for each distinct failure the smallest try that shows it."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.attack.outcome import BAD, GOOD, Outcome


def table(outcomes: Sequence[Outcome]) -> str:
    """One row per kind of try."""
    columns: tuple[str, ...] = ("kind", "tries", *GOOD, "failures", *BAD)
    rows = [columns]
    for kind in (*dict.fromkeys(outcome.kind for outcome in outcomes), "all"):
        mine = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        count = Counter(outcome.verdict for outcome in mine)
        failures = sum(count[verdict] for verdict in BAD)
        rows.append((kind, *map(str, (len(mine), *(count[it] for it in GOOD), failures, *(count[it] for it in BAD)))))
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def failures(outcomes: Sequence[Outcome]) -> str:
    """Failures that share a verdict and a place are one entry: how many, where, and the shortest of them."""
    groups: dict[tuple[str, str, str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if not outcome.good:
            words = re.sub(r"[0-9a-f]{4,}", "#", outcome.words + outcome.title.partition(":")[0])
            same_words = "" if outcome.where else words
            groups[outcome.kind, outcome.verdict, outcome.where, same_words].append(outcome)
    entries = []
    for (kind, verdict, where, _), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        shortest = min(members, key=lambda outcome: len(outcome.title))
        entries.append(
            f"{len(members)} x {verdict} in {kind}: {where}\n    {shortest.words}\n"
            f"    --kind {kind} --case {shortest.index}: {shortest.title[:400]}"
        )
    return "\n".join(entries)

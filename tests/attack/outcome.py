"""What a try ended in, and whether that is right: a result that holds, or a sentence that we wrote.

A sentence is a ValueError or TypeError that a `raise` of the package made.  What the innermost frame shows is the
criterion, not the words: an error that PyTorch, NumPy or the interpreter raised inside the package is not a sentence,
however it reads.  Verdicts that are failures: another exception (a traceback), foreign words, a wrong result
without a word (silent), a hang, memory, a crash.  Equal failures are one entry, with the smallest try that shows it.
"""

import dis
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import tokenloom

PACKAGE = str(Path(tokenloom.__file__).parent)
GOOD = ("result", "sentence")
BAD = ("traceback", "foreign words", "silent", "hang", "memory", "crash")

FOREIGN = re.compile(
    "mat1 and mat2|Expected all tensors|index out of range in self|unsupported operand|has no attribute|"
    "not subscriptable|object is not iterable|size mismatch for|expected scalar type|invalid for input of size|"
    "must match the size of tensor|Traceback|must be real number|not supported between instances|Expected tensor for|"
    "object is not callable|object cannot be interpreted"
)
"""What other libraries say; a sentence of ours does not repeat it."""
OF_THE_CALL = re.compile(
    r"missing \d+ required|takes \d+ positional|takes from \d+|unexpected keyword argument|got multiple values|"
    r"takes no arguments|Can't instantiate abstract class|Protocols cannot be instantiated"
)
"""Python's own sentences on a call with the wrong number of arguments, made before the package is entered."""
OUT_OF_MEMORY = re.compile("out of memory|can.t allocate|cannot allocate|storage size", re.I)


Verdict = tuple[str, str, str]
"""How a try ended, in what words, and where."""


class WrongError(Exception):
    """The try went through, and what came out is not right."""


class RefusalError(Exception):
    """A command ended with status 2 and these words; what it caught is the cause."""


class FoundError(Exception):
    """A process that the try started ended with this verdict."""

    def __init__(self, found: Verdict) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True)
class Outcome:
    """How a try ended; `where` groups equal failures."""

    kind: str
    index: int
    title: str
    verdict: str
    words: str = ""
    where: str = ""

    @property
    def good(self) -> bool:
        """Whether this is how a try should end."""
        return self.verdict in GOOD


def verdict_of(error: BaseException) -> Verdict:
    """The verdict on an exception, its words and its place."""
    words, where = f"{type(error).__name__}: {error}"[:300], place(error.__traceback__)
    if isinstance(error, FoundError):
        return error.found
    if isinstance(error, WrongError):
        return "silent", str(error)[:300], ""
    if isinstance(error, RefusalError):
        cause = error.__cause__
        if isinstance(cause, ValueError):
            return verdict_of(cause)
        return ("sentence" if readable(str(error)) else "traceback"), str(error)[:300], "command line"
    if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(words):
        return "memory", words, where
    if isinstance(error, ValueError | TypeError) and readable(str(error)) and is_ours(error):
        return "sentence", words, where
    foreign = type(error) in (RuntimeError, ValueError, TypeError) or FOREIGN.search(words)
    return ("foreign words" if foreign else "traceback"), words, where


def readable(words: str) -> bool:
    """Whether the words could be a sentence of ours."""
    return len(words) > 20 and " " in words and not FOREIGN.search(words)


def is_ours(error: BaseException) -> bool:
    """Whether a `raise` of the package made an error, or Python refused a call before the package was entered."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    if not code.co_filename.startswith(PACKAGE):
        return isinstance(error, TypeError) and OF_THE_CALL.search(str(error)) is not None
    steps = dis.get_instructions(code)
    return any(step.offset == trace.tb_lasti and step.opname in ("RAISE_VARARGS", "RERAISE") for step in steps)


def place(trace: TracebackType | None) -> str:
    """The innermost line of the package, and the innermost of all where that is another."""
    frames = traceback.extract_tb(trace)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    names = [
        f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno} {frame.name}"
        for frame in (*ours[-1:], *frames[-1:])
    ]
    return " < ".join(dict.fromkeys(reversed(names)))


def table(outcomes: Sequence[Outcome]) -> str:
    """One row per kind of try."""
    rows: list[tuple[object, ...]] = [("kind", "tries", *GOOD, "failures", *BAD)]
    for kind in (*dict.fromkeys(outcome.kind for outcome in outcomes), "all"):
        mine = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        count = Counter(outcome.verdict for outcome in mine)
        good, bad = ([count[verdict] for verdict in verdicts] for verdicts in (GOOD, BAD))
        rows.append((kind, len(mine), *good, sum(bad), *bad))
    return "\n".join("".join(f"{cell:>14}" for cell in row) for row in rows)


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

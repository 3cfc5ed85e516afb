"""Commands as real processes in odd surroundings: terminals that are narrow, dumb or ASCII, streams that are closed or
full, a reader that leaves, and a home or a folder for temporary files that cannot be used.

A command ends with the status it has anywhere else, and without a traceback; where nobody gets its output, it
may end with a sentence (2), or as one whose reader left (141; 1 where rich notices it first).
"""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.attack.outcome import FoundError
from tests.attack.worker import Case
from tests.attack.workspace import MARKOV, Workspace

LINES = {
    "--version": 0, "--help": 0, "": 2, "train --help": 0, "sample --help": 0, "smaple": 2, "sample {space}/nowhere": 2,
    "sample {space}/text --num 2 --steps 2": 0, "sample {space}/run --num 2 --steps 2 --json": 0,
    "sample {space}/text --prompt \u2603": 2, "solve 12343412214343..": 0, "solve 12343412214343.. --json": 0,
    "solve 11............ .": 2, "evaluate {space}/run --sequences 2 --samples 1": 0, "train --recipe list": 2,
    "probe {space}/run --sequences 2 --positions 1 --times 0.5 --out out": 0, "sample {space}/run --sampler list": 0,
    f"train {MARKOV} --max-steps 2 --out new": 0, "train --resume {space}/data": 2,
}  # fmt: skip
"""Commands, and the status each ends with."""
NOWHERE = "/proc/nowhere"
"""A folder that not even root can make."""
SETTINGS: tuple[dict[str, str | None], ...] = (
    {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C", "PYTHONUTF8": "0"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"TERM": "dumb"}, {"TERM": ""}, {"TERM": None},
    {"COLUMNS": "1"}, {"COLUMNS": "20"}, {"COLUMNS": "40"}, {"COLUMNS": "80"}, {"COLUMNS": "x"}, {"NO_COLOR": "1"},
    {"FORCE_COLOR": "1"}, {"HOME": None}, {"TMPDIR": NOWHERE},
    {"HOME": NOWHERE, "XDG_CACHE_HOME": None, "MPLCONFIGDIR": None, "HF_HOME": None},
)  # fmt: skip
STREAMS = {
    "": "", "on a terminal": "", "to a reader that leaves": "", "without stdout": ">&-", "without stderr": "2>&-",
    "without both": ">&- 2>&-", "without stdin": "<&-", "onto a full disk": ">/dev/full",
}  # fmt: skip
"""Where the output goes, and how a shell says it."""
LOST = {"to a reader that leaves": {1, 2, 141}, "onto a full disk": {2}}
"""Further ends that are right where nobody gets the output."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"terminals {seed} {index}")
    line, streams = random.choice(list(LINES)), random.choice(list(STREAMS))
    settings: dict[str, str | None] = {}
    for chosen in random.sample(SETTINGS, random.choice((0, 1, 2, 3))):
        settings |= chosen
    words = [f"{key}={value}" if value is not None else f"without {key}" for key, value in settings.items()]
    title = ", ".join((f"tokenloom {line.replace(MARKOV, '...')} {streams}".strip(), *words))
    command = [sys.executable, "-m", "tokenloom", *line.format(space=space.folder).split()]

    def act(here: Path) -> None:
        environment = {**os.environ, **settings}
        status, said = _ended(command, streams, {key: value for key, value in environment.items() if value is not None})
        right = {LINES[line]} | LOST.get(streams, set())
        if status not in right or "Traceback" in said or "Exception ignored" in said:
            last = said.strip().splitlines()[-1:] or [""]
            raise FoundError(("traceback", f"status {status}: {said[-250:]}", f"status {status}: {last[0][:60]}"))

    return Case("terminals", index, lambda here: title, act, 60)


def _ended(command: list[str], streams: str, environment: dict[str, str]) -> tuple[int, str]:
    """The status of a process, and what it said on stderr (with stdout where both are one terminal)."""
    shell = ["sh", "-c", f'exec "$@" {STREAMS[streams]}', "sh", *command]
    pipe = subprocess.PIPE
    if streams == "on a terminal":
        ours, theirs = pty.openpty()
        with subprocess.Popen(shell, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
            os.close(theirs)
            said = b""
            with suppress(OSError):  # it ends with the last process that has it open
                while part := os.read(ours, 1 << 16):
                    said += part
        os.close(ours)
    else:
        with subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=environment) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            if streams == "to a reader that leaves":
                process.stdout.readline()
                process.stdout.close()
                said = process.stderr.read()
            else:
                said = process.communicate()[1]
    return process.returncode, said.decode(errors="replace")

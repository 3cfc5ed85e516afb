"""How the playground bears visitors: many at once, many in all, those who go away, and the first token.

    python scripts/load_playground.py --out build/load_playground.json

Starts `tokenloom play` on a free port of this machine and sends requests to it alone.  Every answer that is given is
compared with the one that the same seed gets from `Sampler.run` alone.
"""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

import tokenloom as tl

MODELS = ("sudoku", "sudoku4-udm-loo", "sudoku6-udm-loo", "shakespeare-udm-loo")
STEPS = 8


@dataclass(frozen=True)
class LoadConfig:
    """How much to ask for."""

    at_once: int = 200
    """Requests sent at the same moment."""
    in_all: int = 1000
    """Requests over which memory is watched."""
    presses: int = 7
    """Presses of play for the time of the first token, for each model."""
    waiting: int = 64
    """Length of the line, as in --limits.waiting."""
    out: Path | None = None
    """A file for the figures, as JSON."""


@contextmanager
def server(waiting: int) -> Iterator[tuple[str, int]]:
    """A playground in a process of its own: its address and its process id."""
    command = [sys.executable, "-m", "tokenloom", "play", "--port", "0", "--no-open", "--limits.waiting", str(waiting)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://([\d.]+:\d+)/", said)
        if found is None:
            raise ValueError(f"the playground did not start: {said}")
        yield found[1], process.pid
    finally:
        process.terminate()
        process.wait()


def send(host: str, values: dict[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A drawing, begun."""
    connection = http.client.HTTPConnection(host, timeout=300)
    connection.request("POST", "/api/draw", json.dumps(values), {"content-type": "application/json"})
    return connection, connection.getresponse()


def drawn(host: str, model: str, seed: int) -> tuple[str, list[int] | str, float]:
    """What became of a drawing (answered or refused), its tokens or the sentence, and the seconds it took."""
    began = time.perf_counter()
    connection, answer = send(host, {"model": model, "seed": seed, "sampling": {"steps": STEPS}})
    lines = answer.read().splitlines()
    connection.close()
    last = json.loads(lines[-1])
    took = time.perf_counter() - began
    return ("answered", last["tokens"], took) if last.get("kind") == "end" else ("refused", last["sentence"], took)


def first_frames(host: str, model: str, presses: int) -> list[float]:
    """Milliseconds from a request to its first frame."""
    found = []
    for seed in range(presses):
        began = time.perf_counter()
        connection, answer = send(host, {"model": model, "seed": seed, "sampling": {"steps": 32}})
        for line in answer:
            if json.loads(line)["kind"] == "frame":
                found.append(1000 * (time.perf_counter() - began))
                break
        answer.read()
        connection.close()
    return found


def resident(pid: int) -> float:
    """Megabytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def alone(model: str, seed: int) -> list[int]:
    """The tokens of a seed when nobody else draws."""
    drawn: list[int] = (
        tl.Sampler(steps=STEPS).run(tl.load(model), 1, generator=tl.RowGenerators([seed])).tokens[0].tolist()
    )
    return drawn


def all_at_once(host: str, count: int) -> dict[str, Any]:
    """Many drawings at the same moment, over all models."""
    wanted = [(MODELS[seed % len(MODELS)], seed) for seed in range(count)]
    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda one: drawn(host, *one), wanted))
    seconds = time.perf_counter() - began
    given = [(one, answer) for one, answer in zip(wanted, answers, strict=True) if answer[0] == "answered"]
    mixed = [one for one, answer in given if answer[1] != alone(*one)]
    sentences = {str(answer[1]) for answer in answers if answer[0] == "refused"}
    return {
        "requests": count,
        "answered": len(given),
        "refused": count - len(given),
        "sentences": sorted(sentences),
        "not_as_alone": len(mixed),
        "seconds": round(seconds, 2),
        "slowest_refusal": round(max((answer[2] for answer in answers if answer[0] == "refused"), default=0.0), 2),
    }


def many(host: str, pid: int, count: int) -> dict[str, Any]:
    """Many drawings, four at a time; the memory of the server after the first tenth and after the last."""
    tenth = count // 10
    sizes = []
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        for part in range(10):
            seeds = range(part * tenth, (part + 1) * tenth)
            for kind, told, _ in pool.map(lambda seed: drawn(host, MODELS[seed % len(MODELS)], seed), seeds):
                assert kind == "answered", told
            sizes.append(round(resident(pid), 1))
    return {"requests": 10 * tenth, "seconds": round(time.perf_counter() - began, 1), "megabytes": sizes}


def stopped(host: str, pid: int) -> list[float]:
    """Milliseconds from closing a connection to the server being idle again, in the time of its processor."""
    found = []
    for seed in range(5):
        connection, answer = send(host, {"model": "sudoku", "seed": seed, "sampling": {"steps": 1000}})
        for _ in range(5):
            answer.readline()
        answer.close()
        connection.close()
        began = last = time.perf_counter()
        used = _ticks(pid)
        while time.perf_counter() - last < 0.15 and time.perf_counter() - began < 5:
            time.sleep(0.01)
            if _ticks(pid) > used:
                used, last = _ticks(pid), time.perf_counter()
        found.append(1000 * (last - began))
    return found


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def main(config: LoadConfig) -> None:
    """Measure, print and keep."""
    with server(config.waiting) as (host, pid):
        first = {model: first_frames(host, model, config.presses) for model in MODELS}
        figures = {
            "first_frame_ms": {
                model: {"first": round(times[0]), "median": round(statistics.median(times)), "worst": round(max(times))}
                for model, times in first.items()
            },
            "stop_ms": [round(one) for one in stopped(host, pid)],
            "at_once": all_at_once(host, config.at_once),
            "many": many(host, pid, config.in_all),
        }
    print(json.dumps(figures, indent=1))
    if config.out is not None:
        config.out.parent.mkdir(parents=True, exist_ok=True)
        config.out.write_text(json.dumps(figures, indent=1) + "\n")
    if figures["at_once"]["not_as_alone"]:  # type: ignore[index]
        sys.exit("some answers were mixed up")


if __name__ == "__main__":
    main(tyro.cli(LoadConfig))

"""Peak and resident memory of a process, and a measurement in a process of its own."""

import os
import subprocess
import sys
from json import loads
from pathlib import Path


def resident() -> float:
    """Gigabytes this process holds now; its peak where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e9 if status.exists() else peak()


def peak() -> float:
    """Most gigabytes this process has held."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would tell the peak of the parent, if that was larger
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1e6
    import resource  # POSIX only

    unit = 1e9 if sys.platform == "darwin" else 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def in_a_process(code: str, what: str) -> tuple[float, float]:
    """Run code that prints [before, peak] in a fresh process, which gives freed memory back at once."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_TRIM_THRESHOLD_": "1000000"}
    command, clone = [sys.executable, "-c", code], Path(__file__).parents[1]  # where the code finds benchmarks/
    result = subprocess.run(command, cwd=clone, capture_output=True, text=True, env=environment, check=False)
    if result.returncode:
        raise ValueError(f"measuring the memory of {what!r} failed: {result.stderr.strip().splitlines()[-1:]}")
    before, most = loads(result.stdout)
    return before, most

"""Commands beside processes that keep every core busy; `tokenloom bench busy` measures the same at greater length."""

import pytest

from benchmarks.bench_busy import busy, seconds


@pytest.mark.parametrize(
    "arguments",
    [
        ["sample", "shakespeare-udm-loo", "--num", "2", "--steps", "32"],
        ["solve", "1" + 15 * "."],
        ["train", "--recipe", "sudoku4", "--max-steps", "40", "--out", "run"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_beside_busy_processes_shares_the_cores_with_them(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as long is fair; threads that spin while they wait take 10 to 100 times as long."""
    for name in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS"):  # as a user has them, not as the tests do
        monkeypatch.delenv(name, raising=False)
    alone = seconds(["-m", "tokenloom", *arguments])
    with busy(2):
        assert seconds(["-m", "tokenloom", *arguments]) < 5 * alone

"""What does not fit into the machine is refused with its size."""

from pathlib import Path

import pytest

from tokenloom.support import memory
from tokenloom.support.memory import check_memory, machine_memory


def test_a_container_has_no_more_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit, unlimited = tmp_path / "limit", tmp_path / "unlimited"
    limit.write_text("123456789\n")
    unlimited.write_text("max\n")
    monkeypatch.setattr(memory, "LIMITS", (str(tmp_path / "absent"), str(unlimited)))
    whole = machine_memory()
    assert whole > 1e8
    monkeypatch.setattr(memory, "LIMITS", (str(unlimited), str(limit)))
    assert machine_memory() == min(whole, 123456789)


def test_what_is_too_large_gets_its_size_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 24_000_000_000)
    check_memory(24e9, "a network", "make it smaller")
    with pytest.raises(ValueError, match=r"^a network needs about 25.0 GB, .* 24.0 GB; make it smaller"):
        check_memory(25e9, "a network", "make it smaller")
    with pytest.raises(ValueError, match=r"about 1\.0e\+12 GB"):
        check_memory(10**21, "a network", "make it smaller")

"""What the README shows runs as it stands."""

import re
from pathlib import Path

import torch

import tokenloom as tl

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_and_converts_exactly() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    exec(blocks[0], names)
    model, noisy, denoiser = names["model"], names["noisy"], names["denoiser"]
    assert isinstance(model, tl.Oracle)
    assert isinstance(noisy, tl.Noisy)
    assert isinstance(denoiser, tl.Denoiser)
    exact = tl.Oracle(model.p0, model.process, predicts=tl.Denoiser).predict(noisy)
    assert isinstance(exact, tl.Denoiser)
    torch.testing.assert_close(denoiser.log_probs, exact.log_probs)


def test_every_name_of_the_process_table_exists() -> None:
    names = re.findall(r"^\| `(\w+)\(", README.read_text(), re.MULTILINE)
    assert len(names) == 6
    assert all(issubclass(getattr(tl, name), tl.Process) for name in names)

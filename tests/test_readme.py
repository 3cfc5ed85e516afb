"""What the README shows runs as it stands."""

import re
from pathlib import Path

import torch

import tokenloom as tl

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_trains_samples_and_converts_exactly() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 1
    names: dict[str, object] = {}
    torch.manual_seed(0)
    exec(blocks[0], names)
    model, tokens, noisy, denoiser = (names[name] for name in ("model", "tokens", "noisy", "denoiser"))
    assert isinstance(model, tl.DiffusionModel)
    assert isinstance(tokens, torch.Tensor)
    counting = ((tokens[:, 1:] - tokens[:, :-1]) % 5 == 1).all(1)
    assert counting.double().mean() > 0.5  # one row in 78,125 by chance
    assert isinstance(noisy, tl.Noisy)
    assert isinstance(denoiser, tl.Denoiser)
    leave_one_out = model.predict(noisy)
    assert isinstance(leave_one_out, tl.LeaveOneOut)
    own = torch.nn.functional.one_hot(noisy.tokens, 5)
    alpha = noisy.alpha_t[:, None, None]
    mass = leave_one_out.log_probs.double().exp() * (alpha * own + (1 - alpha) / 5)
    expected = mass / mass.sum(-1, keepdim=True)
    torch.testing.assert_close(denoiser.log_probs.double().exp(), expected, rtol=1e-4, atol=1e-6)


def test_every_link_leads_to_a_file() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    assert len(links) > 20
    missing = [link for link in links if not link.startswith("http") and not (README.parent / link).exists()]
    assert not missing


def test_every_name_of_the_process_table_exists() -> None:
    names = re.findall(r"^\| `(\w+)\(", README.read_text(), re.MULTILINE)
    assert len(names) == 7
    assert all(issubclass(getattr(tl, name), tl.Process) for name in names)

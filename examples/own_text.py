"""Your own text with your own vocabulary: from a file to rows of tokens, a small network, and a sample with a prompt.

The command line does the same at full length: tokenloom train --data.path my_text.txt
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import tokenloom as tl
from tokenloom.data.text import load_text

LENGTH, STEPS = 16, 200
TEXT = "the loom weaves the thread and the thread holds the cloth. " * 40
PROMPT = "the loom"


def main(steps: int = STEPS) -> str:
    """Text that begins with the prompt."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "my_text.txt"
        file.write_text(TEXT)
        # tokenizer: characters, bytes, bpe:500, a tokenizer.json or a Hub name
        data = load_text(file, tokenizer="characters", length=LENGTH, cache=Path(folder))
    rows, size = data.train.to(torch.int64), data.vocab_size
    config = tl.nn.TransformerConfig(size, size, LENGTH, width=32, depth=2, heads=2, given=True)
    model = tl.DiffusionModel(tl.nn.DiT(config), tl.Uniform(size), predicts=tl.LeaveOneOut, tokenizer=data.tokenizer)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        x_0 = rows[torch.randint(len(rows), (32,), generator=generator)]
        t = torch.rand(32, generator=generator)
        known = torch.randint(LENGTH, (32, 1), generator=generator)
        given = torch.arange(LENGTH) < known  # a beginning, as a prompt is
        optimiser.zero_grad()
        loss = tl.training_loss(model, tl.objectives.CrossEntropy(), x_0, t, generator, given)
        loss.mean.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    tokens = tl.sample(model, 1, steps=16, prompt=PROMPT, generator=generator)
    return model.decode(tokens)[0]


if __name__ == "__main__":
    print(main())

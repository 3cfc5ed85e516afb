"""Your own network: any callable (tokens, time) -> logits is trained and sampled like those of `tokenloom.nn`.

The network here reads each position together with its two neighbours; the data is a Markov chain whose exact
entropy is known, so the bound it reaches can be judged.
"""

import torch
from torch import Tensor, nn

import tokenloom as tl
from tokenloom.data.markov import markov_chain

K, LENGTH, STEPS = 6, 16, 150


class Neighbours(nn.Module):
    """Logits from a window of three tokens and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(K, 32)
        self.mix = nn.Conv1d(33, 64, 3, padding=1)
        self.head = nn.Linear(64, K)

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        clock = time.float()[:, None, None].expand(*tokens.shape, 1)
        inputs = torch.cat([self.embed(tokens), clock], -1).transpose(1, 2)
        logits: Tensor = self.head(torch.relu(self.mix(inputs)).transpose(1, 2))
        return logits


def main() -> tuple[Tensor, float, float]:
    """Samples, the bound in nats per token, and the exact entropy."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    data = tl.MarkovOracle(*markov_chain(K, seed=0), LENGTH, tl.Uniform(K))
    model = tl.DiffusionModel(Neighbours(), tl.Uniform(K), tl.LinearSchedule(), predicts=tl.LeaveOneOut)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(STEPS):
        x_0, t = data.sample(64, generator), torch.rand(64, generator=generator)
        optimiser.zero_grad()
        tl.training_loss(model, tl.objectives.CrossEntropy(), x_0, t, generator).mean.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    bound = tl.nelbo(model, data.sample(256, generator), generator=generator)
    return tl.sample(model, 4, length=LENGTH, steps=32, generator=generator), bound.per_token, data.entropy() / LENGTH


if __name__ == "__main__":
    samples, bound, entropy = main()
    print(samples)
    print(f"bound {bound:.3f} nats per token, exact entropy {entropy:.3f}")

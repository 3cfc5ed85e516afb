"""One prediction in three representations, and what goes wrong when they are confused.

Everything is exact: an oracle stands in for the network.
"""

import torch
from torch import Tensor

import tokenloom as tl


def main() -> tuple[float, float]:
    """How far a bridge is from the true reverse step: with the right type, and with the wrong one."""
    p0 = torch.tensor([[1.0, 6, 3], [6, 1, 8], [2, 9, 1]]).double() / 37  # two positions, three tokens
    process = tl.Uniform(3)
    oracle = tl.Oracle(p0, process, predicts=tl.Denoiser)
    x_t, alpha_t = torch.tensor([[0, 2]]), torch.tensor([0.5], dtype=torch.float64)
    state = tl.Noisy(x_t, process.time_at(alpha_t), alpha_t)
    denoiser = oracle.predict(state)
    assert isinstance(denoiser, tl.Denoiser)
    leave_one_out = tl.convert(denoiser, tl.LeaveOneOut, x_t, alpha_t, process)
    score = tl.convert(leave_one_out, tl.Score, x_t, alpha_t, process)
    back = tl.convert(score, tl.Denoiser, x_t, alpha_t, process)
    torch.testing.assert_close(back.log_probs.exp(), denoiser.log_probs.exp())  # no knowledge is lost on the way

    s = torch.tensor([0.25], dtype=torch.float64)
    truth = process.bridge(state, s, denoiser).dense()
    plugged_in = process.bridge(state, s, leave_one_out).dense()
    confused = process.bridge(state, s, tl.LeaveOneOut(denoiser.logits)).dense()  # bare logits, guessed wrongly
    return distance(truth, plugged_in), distance(truth, confused)


def distance(first: Tensor, second: Tensor) -> float:
    """The largest total variation of a position."""
    return float((first - second).abs().sum(-1).max()) / 2


if __name__ == "__main__":
    right, wrong = main()
    print(f"leave-one-out posterior plugged in: {right:.1e} from the true step")
    print(f"denoiser plugged in as if it were one: {wrong:.1e}")

"""Log-probabilities at two tokens and sums over the vocabulary: values and gradients by autograd's own operations."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.objectives.token_log_probs import denoiser_log_probs, leave_one_out_log_probs, sum_log1p

K, ROWS, L = 6, 3, 4
PROCESS = tl.Uniform(K)
X_0 = torch.randint(K, (ROWS, L), generator=torch.Generator().manual_seed(0))
NOISY = PROCESS.corrupt(X_0, torch.tensor([0.2, 0.5, 0.9]).double(), torch.Generator().manual_seed(1))
LOGITS = 2 * torch.randn(ROWS, L, K, generator=torch.Generator().manual_seed(2)).double()
SLOPES = torch.randn(3, ROWS, L, generator=torch.Generator().manual_seed(3)).double()
KINDS: list[type[tl.Denoiser] | type[tl.LeaveOneOut]] = [tl.Denoiser, tl.LeaveOneOut]


def read(logits: Tensor, kind: type[tl.Denoiser] | type[tl.LeaveOneOut], to_denoiser: bool) -> list[Tensor]:
    function = denoiser_log_probs if to_denoiser else leave_one_out_log_probs
    found = function(kind(logits), X_0, NOISY, PROCESS)
    return [found.noisy, found.clean, sum_log1p(found, torch.full((ROWS, L), 3.0).double())]


def written(logits: Tensor, kind: type[tl.Denoiser] | type[tl.LeaveOneOut], to_denoiser: bool) -> list[Tensor]:
    """The shifted row formed and normalised, by operations that autograd differentiates itself."""
    sign = to_denoiser * (kind is tl.LeaveOneOut) - (not to_denoiser) * (kind is tl.Denoiser)
    own = torch.nn.functional.one_hot(NOISY.tokens, K)
    law = (logits + sign * PROCESS.evidence(NOISY).unsqueeze(-1) * own).log_softmax(-1)
    at = [law.gather(-1, index.unsqueeze(-1)).squeeze(-1) for index in (NOISY.tokens, X_0)]
    return [*at, torch.log1p(3 * law.exp()).sum(-1)]


@pytest.mark.parametrize("to_denoiser", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_gradients_are_those_of_the_row_as_written(
    kind: type[tl.Denoiser] | type[tl.LeaveOneOut], to_denoiser: bool
) -> None:
    for used in ([0], [1], [2], [0, 1, 2]):
        gradients = []
        for function in (read, written):
            logits = LOGITS.clone().requires_grad_()
            values = function(logits, kind, to_denoiser)
            total = torch.stack([(SLOPES[part] * values[part]).sum() for part in used]).sum()
            gradients.append((total.detach(), torch.autograd.grad(total, logits)[0]))
        for found, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)

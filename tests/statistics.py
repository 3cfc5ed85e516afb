"""Chi-square and Kolmogorov-Smirnov tests with a stated false-alarm rate."""

import math

import torch
from torch import Tensor

FALSE_ALARM = 1e-6
"""Probability that a correct sampler fails one test.  Seeds are fixed, so a passing test keeps passing."""


def assert_frequencies(counts: Tensor, probabilities: Tensor) -> None:
    """Counts follow the law; cells expected fewer than 5 times are pooled, impossible cells must be empty."""
    counts, probabilities = counts.double().flatten(), probabilities.double().flatten()
    total = counts.sum()
    assert abs(float(probabilities.sum()) - 1) < 1e-5, "the expected law is no law"
    assert counts[probabilities == 0].sum() == 0, "an impossible outcome was drawn"
    expected = total * probabilities
    rare = expected < 5
    observed = torch.cat([counts[~rare], counts[rare].sum(0, keepdim=True)])
    expected = torch.cat([expected[~rare], expected[rare].sum(0, keepdim=True)])
    observed, expected = observed[expected > 0], expected[expected > 0]
    statistic = ((observed - expected) ** 2 / expected).sum()
    degrees = torch.tensor(float(max(1, len(expected) - 1)), dtype=torch.float64)
    p_value = float(torch.special.gammaincc(degrees / 2, statistic / 2))
    assert p_value > FALSE_ALARM, f"chi-square {statistic:.1f} on {int(degrees)} degrees of freedom, p = {p_value:.1e}"


def assert_uniform(samples: Tensor) -> None:
    """Samples are uniform on [0, 1] (Kolmogorov-Smirnov, asymptotic tail 2 exp(-2 n d^2))."""
    ordered = samples.double().flatten().sort().values
    count = len(ordered)
    steps = torch.arange(count + 1, dtype=torch.float64) / count
    distance = max(float((steps[1:] - ordered).max()), float((ordered - steps[:-1]).max()))
    p_value = 2 * math.exp(-2 * count * distance**2)
    assert p_value > FALSE_ALARM, f"largest distance {distance:.4f} of {count} samples, p = {p_value:.1e}"


def sequence_counts(tokens: Tensor, states: int) -> Tensor:
    """How often each sequence occurs, in row-major order."""
    weights = states ** torch.arange(tokens.shape[1] - 1, -1, -1)
    return torch.bincount((tokens * weights).sum(-1), minlength=states ** tokens.shape[1])

"""Sampling holds few tensors of logits at a time, and the chunks that make it so change nothing."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.samplers.helpers import Cell
from tokenloom.drawing import chunks
from tokenloom.samplers import evaluator

PEAK = """
import resource, sys, torch
import tokenloom as tl

K, B, L = 65536, 8, 48
weight = torch.randn(K, 8, generator=torch.Generator().manual_seed(0))

class Network(torch.nn.Module):
    length = L
    def features(self, tokens, time):
        return torch.randn(*tokens.shape, 8, generator=torch.Generator().manual_seed(1))
    def head(self, features):
        return features @ weight.T
    def forward(self, tokens, time):
        return self.head(self.features(tokens, time))

torch.set_num_threads(1)
kind, sampler, steps, top_p = sys.argv[1:]
process = getattr(tl, kind)(K)
model = tl.DiffusionModel(Network(), process, predicts=tl.Denoiser if kind == "Masked" else tl.LeaveOneOut)
sampler = tl.Sampler.parse(sampler, steps=int(steps), top_p=float(top_p))
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
sampler.run(model, 1, length=2)
before = peak()
sampler.run(model, B)
print((peak() - before) / (4 * K * B * L))
"""
"""A run whose first step draws every position; its peak in tensors of logits, of which one of float64 takes two."""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss has another unit there")
@pytest.mark.parametrize(
    "options",
    [("Masked", "ancestral", "1", "0.9"), ("Uniform", "ancestral + balanced:parallel=true,time=40", "3", "1")],
    ids=["top-p", "balanced"],
)
def test_at_a_large_vocabulary_a_run_takes_at_most_two_and_a_half_tensors_of_logits(options: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", PEAK, *options], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.5


def drawn(kind: Cell, sampler: str) -> Tensor:
    def network(tokens: Tensor, time: Tensor) -> Tensor:
        return 3 * torch.randn(*tokens.shape, 50, generator=torch.Generator().manual_seed(1))

    model = tl.DiffusionModel(network, kind(50), predicts=tl.Denoiser)
    seeds = tl.RowGenerators([1, 2, 3])
    return tl.sample(model, 3, length=7, steps=5, sampler=sampler, top_p=0.8, temperature=0.7, generator=seeds)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("kind", "sampler"), [(tl.Uniform, "ancestral"), (tl.Masked, "confidence"), (tl.Uniform, "planned")]
)
def test_the_size_of_a_chunk_changes_nothing(kind: Cell, sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(kind, sampler)
    logits = torch.randn(4, 9, 50, generator=torch.Generator().manual_seed(2))
    truncation = tl.Truncation(temperature=0.5, top_k=20, top_p=0.7, forbid=(3,))
    kept = tl.truncate(logits, truncation)
    for size in (1, 120, 333):
        monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", size)
        monkeypatch.setattr(evaluator, "HEAD_ELEMENTS", 2 * size)
        assert torch.equal(drawn(kind, sampler), whole)
        assert torch.equal(tl.truncate(logits, truncation), kept)


def test_chunks_cover_every_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ELEMENTS", 10)
    for count in (0, 1, 2, 5, 6):
        parts = chunks.chunks(count, 4)
        assert [row for part in parts for row in range(count)[part]] == list(range(count))
        assert all(len(range(count)[part]) <= 2 for part in parts)
        rows = torch.arange(count)
        assert torch.equal(chunks.by_chunks(count, 4, lambda part, rows=rows: 2 * rows[part]), 2 * rows)  # type: ignore[misc]

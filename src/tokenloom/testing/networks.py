"""Does a network do what it says of itself, and does a model read it in one way only?"""

import tempfile
from typing import Any

import torch
from torch import Tensor, nn

from tokenloom.models.evaluating import evaluating
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.store import load_model
from tokenloom.nn.base import Network
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.head_loss import loss_at
from tokenloom.posteriors import LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.samplers.run import length_of
from tokenloom.state import Noisy
from tokenloom.testing.report import Report

ROWS = 3


def check_network(
    network: Any, process: Process, predicts: type[Posterior] = LeaveOneOut, length: int | None = None
) -> Report:
    """Check a network under a process: shapes, what it says of itself, and that rows do not see each other.

    `length` is needed where the network does not say how long its sequences are.
    """
    model = DiffusionModel(network, process, predicts=predicts)
    report = Report(f"network {type(unwrapped(network)).__name__} under {process.title}")
    _, noisy = _state(process, min(length_of(model, length), 16))
    with torch.no_grad(), evaluating(model):
        try:
            logits = model.logits(noisy)
        except ValueError as error:
            report.note("it returns logits of the right shape", False, f"{type(error).__name__}: {error}")
            return report
        report.note("its logits hold no NaN", not bool(logits.isnan().any()))
        report.close("it answers twice the same", model.logits(noisy), logits, 1e-5)
        report.close("a row does not see the others", model.logits(noisy.sequences(slice(0, 1))), logits[:1], 1e-4)
        _check_claims(model, noisy, logits, report)
    return report


def _check_claims(model: DiffusionModel, noisy: Noisy, logits: Tensor, report: Report) -> None:
    process, changed = model.process, noisy.tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % process.vocab_size
    other = Noisy(changed, noisy.t, noisy.alpha_t, noisy.aux)
    if model.hollow:
        report.close("it is hollow: the last position ignores itself", model.logits(other)[:, -1], logits[:, -1], 1e-4)
    if model.causal:
        before = model.logits(other)[:, :-1]
        report.close("it is causal: earlier positions ignore the last", before, logits[:, :-1], 1e-4)
    if model.timeless and not model.reads_evidence:
        later = Noisy(noisy.tokens, 0.9 * noisy.t, process.alpha(0.9 * noisy.t), noisy.aux)
        report.close("it is timeless: it ignores the time", model.logits(later), logits, 1e-4)
    head = model.linear_head
    if head is not None:
        features = model.body(noisy).flatten(0, 1)
        product = features @ head.weight.T + (0 if head.bias is None else head.bias)
        report.close("its head is linear", product.view_as(logits), logits, 1e-3)
    if model.call.splits and isinstance(model.network, nn.Module) and not model.reads_evidence:
        network = model.network
        whole = DiffusionModel(lambda *args, **more: network(*args, **more), process, predicts=model.predicts)
        report.close("called whole it is features and head", whole.logits(noisy), logits, 1e-4)


def check_model(model: DiffusionModel, length: int | None = None) -> Report:
    """Check a model: its network, that everything reads it alike, and that it survives saving where it can be saved."""
    report = Report(f"model of {type(unwrapped(model.network)).__name__} under {model.process.title}")
    report.laws |= check_network(model.network, model.process, model.predicts, length).laws
    x_0, noisy = _state(model.process, min(length or model.length or 16, 16))
    with torch.no_grad(), evaluating(model):
        predicted, read = model.predict(noisy), model.interpret(model.logits(noisy), noisy)
        report.close("predict is interpret of its logits", _values(predicted), _values(read), 1e-4)
        if model.predicts is not Score and not model.causal:
            found = loss_at(model, CrossEntropy(), x_0, noisy).per_token
            expected = CrossEntropy().per_token(predicted, x_0, noisy, model.process)
            report.close("a loss reads the same prediction", found, expected, 1e-3)
        if isinstance(unwrapped(model.network), Network):
            with tempfile.TemporaryDirectory() as folder:
                model.save(f"{folder}/model")
                loaded = load_model(f"{folder}/model")
            again = _values(loaded.predict(noisy))
            report.close("saved and loaded it predicts the same", again, _values(predicted), 1e-4)
            report.note("saved and loaded it has the same process", loaded.process == model.process)
    return report


def _values(posterior: Posterior) -> Tensor:
    values: Tensor = posterior.log_ratios if isinstance(posterior, Score) else posterior.logits  # type: ignore[attr-defined]
    return values.nan_to_num(neginf=-1e3)


def _state(process: Process, length: int) -> tuple[Tensor, Noisy]:
    """Return clean tokens, and the state half-way to noise that they are corrupted to."""
    tokens = [token for token in range(min(process.vocab_size, 1000)) if token != process.mask_in_vocabulary]
    x_0 = torch.tensor(tokens)[torch.arange(ROWS * length).view(ROWS, length) * 7 % len(tokens)]
    t = torch.full((ROWS,), 0.5, dtype=torch.float64)
    return x_0, process.corrupted(x_0, t, torch.Generator().manual_seed(0), None)

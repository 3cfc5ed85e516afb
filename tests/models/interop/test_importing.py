"""Every family becomes a native model with the right process, clock and posterior; bad files become sentences."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.models.interop.ddit_reference import MODEL, V, forward, random_backbone, write_checkpoint
from tokenloom.models.interop.importing import import_model
from tokenloom.models.store import load_model
from tokenloom.state import Noisy

K = V - 1
TIMES = torch.tensor([0.05, 0.3, 0.6, 1.0])
TOKENS = torch.randint(0, K, (4, 9), generator=torch.Generator().manual_seed(2))


def state_of(model: tl.DiffusionModel, tokens: Tensor = TOKENS) -> Noisy:
    return Noisy(tokens, TIMES, model.process.alpha(TIMES.double()))


@torch.no_grad()
def raw_logits(model: tl.DiffusionModel, absorbing: Tensor | None = None) -> Tensor:
    return model.logits(replace(state_of(model), aux=absorbing))


CASES = [
    ("mdlm", {}, tl.Masked(K), tl.Denoiser, "zero"),
    ("mdlm", {"time_conditioning": True}, tl.Masked(K), tl.Denoiser, "sigma"),
    ("bd3lm", {}, tl.Masked(K), tl.Denoiser, "zero"),
    ("udlm", {}, tl.Uniform(V), tl.LeaveOneOut, "sigma"),
    ("duo", {"model_type": "DUO"}, tl.Uniform(V), tl.LeaveOneOut, "sigma"),
    ("sedd", {}, tl.Masked(K), tl.Denoiser, "sigma"),
    ("gidd", {}, tl.Masked(K, schedule=tl.LinearSchedule(0.0)), tl.Denoiser, "time"),
    ("gidd", {"p_uniform": 0.1}, tl.Hybrid(K, p_uniform=0.1), tl.LeaveOneOut, "time"),
]


@pytest.mark.parametrize(("family", "config", "process", "predicts", "clock"), CASES)
def test_a_family_becomes_a_native_model_with_the_logits_of_the_original(
    tmp_path: Path, family: str, config: dict[str, Any], process: Any, predicts: Any, clock: str
) -> None:
    tensors = random_backbone(dtype=torch.float32)
    model = import_model(write_checkpoint(tmp_path / family, family, tensors, **config)).model
    assert model.process == process
    assert model.predicts is predicts
    times = {"zero": torch.zeros(4), "time": TIMES.clamp(1e-4, 1 - 1e-4), "sigma": -process.alpha(TIMES.double()).log()}
    theirs = forward(tensors, TOKENS, times[clock].float())[..., : process.vocab_size]
    assert (raw_logits(model) - theirs).abs().max() < 1e-3
    assert model.timeless == (clock == "zero")
    assert model.length == 9
    model.save(tmp_path / "native")
    again = load_model(tmp_path / "native")
    assert torch.equal(raw_logits(model), raw_logits(again))
    assert (again.process, again.about) == (process, model.about)
    origin = again.about.origin or {}
    assert (origin["source"], len(origin["sha256"])) == (family, 64)


def test_the_denoiser_of_an_import_never_draws_the_mask_and_keeps_what_is_visible(tmp_path: Path) -> None:
    tensors = random_backbone(dtype=torch.float32)
    model = import_model(write_checkpoint(tmp_path / "mdlm", "mdlm", tensors)).model
    tokens = TOKENS.where(TOKENS % 2 == 0, K)
    prediction = model.predict(state_of(model, tokens))
    assert isinstance(prediction, tl.Denoiser)
    found = prediction.log_probs
    theirs = forward(tensors, tokens, torch.zeros(4))
    theirs[..., K] -= 1e6
    expected = theirs.log_softmax(-1)[..., :K]
    hidden = tokens == K
    assert found.shape[-1] == K
    assert (found[hidden].exp() - expected[hidden].exp()).abs().max() < 1e-4
    assert torch.equal(found[~hidden].argmax(-1), tokens[~hidden])
    assert bool((found[~hidden].amax(-1) == 0).all())


def test_the_score_of_sedd_is_that_of_its_raw_logits_as_a_denoiser() -> None:
    """Its class gives raw - log(expm1(sigma)) - log(V - 1), and 0 at x_t."""
    process, raw = tl.Masked(K), torch.randn(4, 9, V, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    tokens = torch.full((4, 9), K)
    alpha = process.alpha(torch.tensor([0.05, 0.3, 0.6, 0.9], dtype=torch.float64))
    raw = raw - raw[..., :K].logsumexp(-1, keepdim=True) + torch.tensor(K).log()  # normalised, as a true score is
    scaled = raw - torch.expm1(-alpha.log()).log()[:, None, None] - torch.tensor(V - 1.0).log()
    scaled = scaled.scatter(-1, tokens.unsqueeze(-1), 0.0)
    found = tl.convert(tl.Score(scaled), tl.Denoiser, tokens, alpha, process)
    assert (found.log_probs.exp() - raw[..., :K].softmax(-1)).abs().max() < 1e-12


def bridge_of_duo(logits: Tensor, tokens: Tensor, alpha_s: Tensor, alpha_t: Tensor) -> Tensor:
    """The posterior of UDLM and Duo, from its formula: the softmax plugged into q(x_s | x_t, x_0)."""
    size, p = logits.shape[-1], logits.softmax(-1)
    a_s, a_t = alpha_s[:, None, None], alpha_t[:, None, None]
    step = a_t / a_s
    x_t = torch.nn.functional.one_hot(tokens, size).double()
    own = p.gather(-1, tokens.unsqueeze(-1))
    top = a_t * size * p * x_t + (step - a_t) * x_t + (a_s - a_t) * p + (1 - step) * (1 - a_s) / size
    return top / (a_t * size * own + 1 - a_t)


def test_the_bridge_of_udlm_and_duo_is_that_of_a_leave_one_out_posterior() -> None:
    process = tl.Uniform(V)
    logits = torch.randn(4, 9, V, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    t, s = torch.tensor([0.1, 0.4, 0.7, 1.0]).double(), torch.tensor([0.05, 0.3, 0.0, 0.9]).double()
    alpha_t, alpha_s = process.alpha(t), process.alpha(s)
    ours = process.bridge(Noisy(TOKENS, t, alpha_t), s, tl.LeaveOneOut(logits)).log_probs().exp()
    assert (ours - bridge_of_duo(logits, TOKENS, alpha_s, alpha_t)).abs().max() < 1e-12


def nelbo_of_duo(logits: Tensor, tokens: Tensor, x_0: Tensor, alpha: Tensor, slope: Tensor) -> Tensor:
    """Duo's loss per token, from its formula."""
    size, p = logits.shape[-1], logits.softmax(-1)
    a, slope = alpha[:, None], slope[:, None]
    clean = size * a[..., None] * torch.nn.functional.one_hot(x_0, size).double() + 1 - a[..., None]
    mixed = size * a[..., None] * p + 1 - a[..., None]
    own, own_mixed = (part.gather(-1, tokens.unsqueeze(-1)) for part in (clean, mixed))
    ratio = clean / own
    logs = (own_mixed.log() - mixed.log() - own.log() + clean.log()) * ratio
    return slope / (size * a) * (size / own[..., 0] - size / own_mixed[..., 0] - logs.sum(-1))


def test_the_bound_of_duo_is_that_of_a_leave_one_out_posterior() -> None:
    process = tl.Uniform(V)
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(4, 9, V, dtype=torch.float64, generator=generator)
    x_0 = torch.randint(0, V, (4, 9), generator=generator)
    t = TIMES.double()
    noisy = Noisy(TOKENS, t, process.alpha(t))
    ours = tl.objectives.MarkovNELBO().per_token(tl.LeaveOneOut(logits), x_0, noisy, process)
    theirs = nelbo_of_duo(logits, TOKENS, x_0, noisy.alpha_t, process.schedule.alpha_prime(t))
    assert (ours - theirs).abs().max() < 1e-11


PAPER = [
    ({"name": "mdlm"}, "none", tl.Masked(K), tl.Denoiser),
    ({"name": "remdlm"}, "none", tl.Masked(K), tl.Denoiser),
    ({"name": "udlm"}, "none", tl.Uniform(V), tl.LeaveOneOut),
    ({"name": "udlm", "model_prediction": "mean"}, "none", tl.Uniform(V), tl.Denoiser),
    ({"name": "max_coupling", "model_prediction": "mean_loo"}, "none", tl.MaxCoupling(V), tl.LeaveOneOut),
    ({"name": "max_coupling"}, "none", tl.MaxCoupling(V), tl.Denoiser),
    ({"name": "audm"}, "shared_mlp", tl.AbsorbingUniform(V), tl.Denoiser),
    ({"name": "audm"}, "separate_linear", tl.AbsorbingUniform(V), tl.Denoiser),
    ({"name": "reaudm"}, "separate_linear", tl.AbsorbingUniform(V), tl.Denoiser),
]


@pytest.mark.parametrize(("algorithm", "fusion", "process", "predicts"), PAPER)
def test_every_algorithm_of_the_papers_code_is_imported_with_its_average(
    tmp_path: Path, algorithm: dict[str, Any], fusion: str, process: Any, predicts: Any
) -> None:
    raw, average = (random_backbone(fusion=fusion, seed=seed, dtype=torch.float32) for seed in (0, 1))
    shadow = [value for name, value in average.items() if not name.startswith("rotary_emb.")]
    stored = {f"diffusion.model.backbone.{name}": value for name, value in raw.items()}
    config = {"algo": algorithm, "model": MODEL, "training": {"sampling_eps": 1e-3}}
    content = {"state_dict": stored, "ema": {"shadow_params": shadow, "decay": 0.9999}, "epoch": 3}
    torch.save(content | {"hyper_parameters": {"config": config}}, tmp_path / "run.ckpt")
    sigma = -process.alpha(TIMES.double()).log().float()
    if algorithm["name"] in ("mdlm", "remdlm"):
        sigma = torch.zeros(4)
    for use_average, tensors in ((True, average), (False, raw)):
        model = import_model(tmp_path / "run.ckpt", pickles=True, average=use_average).model
        assert (model.process, model.predicts) == (process, predicts)
        absorbing = TOKENS.roll(1, 0) if fusion != "none" else None
        theirs = forward(tensors, TOKENS, sigma, absorbing)[..., : process.vocab_size]
        assert (raw_logits(model, absorbing) - theirs).abs().max() < 1e-3


def test_the_stripped_layout_of_the_papers_code_takes_its_config_from_beside_it(tmp_path: Path) -> None:
    tensors = random_backbone(dtype=torch.float32)
    torch.save({"backbone_state_dict": tensors}, tmp_path / "backbone.ckpt")
    with pytest.raises(ValueError, match="nothing in its config says which family"):
        import_model(tmp_path / "backbone.ckpt", pickles=True)
    with pytest.raises(ValueError, match="neither the weights nor a config say model_length"):
        import_model(tmp_path / "backbone.ckpt", pickles=True, family="udlm")
    (tmp_path / "config.json").write_text(json.dumps({"model_length": 9}))
    with pytest.raises(ValueError, match=r"algo\.name must be one of the paper's algorithms .*, got none"):
        import_model(tmp_path / "backbone.ckpt", pickles=True, family="paper")
    model = import_model(tmp_path / "backbone.ckpt", pickles=True, family="udlm").model
    assert model.process == tl.Uniform(V)


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"parameterization": "subs"}, "MDLM"),
        ({"parameterization": "sedd"}, "SEDD"),
        ({"parameterization": "d3pm", "diffusion": "uniform"}, "UDLM"),
        ({"algo": {"name": "duo_base"}}, "Duo"),
        ({"algo": {"name": "distillation"}}, "Duo, distilled"),
        ({"algo": {"name": "mdlm"}}, "MDLM"),
    ],
)
def test_lightning_checkpoints_of_other_repositories_are_recognised(
    tmp_path: Path, config: dict[str, Any], family: str
) -> None:
    stored = {f"backbone.{name}": value for name, value in random_backbone(dtype=torch.float32).items()}
    torch.save({"state_dict": stored, "hyper_parameters": {"config": config | {"model": MODEL}}}, tmp_path / "x.ckpt")
    assert import_model(tmp_path / "x.ckpt", pickles=True).report["family"] == family


def test_a_distilled_model_is_imported_with_a_warning(tmp_path: Path) -> None:
    found = import_model(write_checkpoint(tmp_path / "duo-distilled", "duo"))
    for warning in (found.report["beware 1"], (found.model.about.origin or {})["notes"][0]):
        assert "its bound means nothing" in warning


@pytest.mark.parametrize(
    ("family", "change", "sentence"),
    [
        ("mdlm", {}, "the tokenizer has 256 ids, but the network reads 11"),
        ("bd3lm", {"block_size": 4}, "block_size 4 below model_length 9 means block diffusion"),
        ("mdlm", {"model_type": "electra-small"}, "models of type electra-small cannot be imported"),
        ("mdlm", {"hidden_dim": 64}, "says hidden_dim 64, but the weights have 32"),
        ("mdlm", {"n_blocks": 12}, "says n_blocks 12, but the weights have 3"),
        ("mdlm", {"n_heads": 8}, "says n_heads 8, but the weights have 4"),
        ("mdlm", {"n_heads": 0}, "n_heads must be a whole number of at least 1, got 0"),
        ("mdlm", {"vocab_size": 50258}, "says vocab_size 50258, but the weights have 11"),
        ("duo", {"causal": True}, "autoregressive baseline"),
        ("sedd", {"graph": {"type": "uniform"}}, "was never released"),
        ("gidd", {"p_uniform": 2.0}, r"p_uniform must be a number in \[0, 1\), got 2.0"),
    ],
)
def test_a_config_or_a_tokenizer_that_does_not_fit_is_refused(
    tmp_path: Path, family: str, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        import_model(write_checkpoint(tmp_path / family, family, **change), tokenizer="bytes")


def test_a_truncated_file_an_empty_folder_and_a_pickle_without_tensors_are_sentences(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "mdlm", "mdlm")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"mdlm cannot be imported: model\.safetensors is not a safetensors file"):
        import_model(folder)
    path.unlink()
    with pytest.raises(ValueError, match="holds no weights"):
        import_model(folder)
    with pytest.raises(ValueError, match="a name on the Hub looks like owner/name"):
        import_model("no such thing")
    for content in ({"state_dict": 5}, {"state_dict": [torch.ones(1)]}, {"model": "a name"}):
        torch.save(content, tmp_path / "run.ckpt")
        with pytest.raises(ValueError, match=r"run\.ckpt cannot be imported: .* holds no tensors"):
            import_model(tmp_path / "run.ckpt", pickles=True)

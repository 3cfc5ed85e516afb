"""The scheduler keeps the law through the calls of a pipeline, and runs inside the real one.

Chi-square tests have a false-alarm rate of at most 1e-6.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.samplers.helpers import K, generator, oracle
from tests.samplers.test_driven import chain, drive
from tests.statistics import assert_frequencies, sequence_counts

pytest.importorskip("diffusers", reason="diffusers needs Python 3.11; make test brings it there")

from diffusers import DiffusionGemmaPipeline

from tokenloom.diffusers import TokenloomScheduler

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")  # what transformers imports
VOCABULARY, CANVAS = 64, 8
transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.mark.parametrize("corrections", [0, 1])
@pytest.mark.parametrize("predicts", ["denoiser", "leave-one-out"])
def test_scheduler_samples_the_law_of_the_chain_from_either_posterior(predicts: str, corrections: int) -> None:
    scheduler = TokenloomScheduler(corrector="random-scan" if corrections else None, predicts=predicts)
    scheduler.set_timesteps(4, device="cpu")
    source = generator()

    def step(logits: Tensor, index: int, tokens: Tensor) -> Tensor:
        # the pipeline's default temperature is 0, and leaves the scheduler's own
        out = scheduler.step(logits, torch.tensor(index), tokens, temperature=0.0, generator=source)
        assert out.pred_logits is logits
        return out.prev_sample  # type: ignore[no-any-return]

    def correct(logits: Tensor, index: int, tokens: Tensor) -> Tensor:
        return scheduler.step_correct(logits, index, tokens, generator=source, return_dict=False)[0]  # type: ignore[no-any-return]

    model = oracle(tl.Uniform, tl.Denoiser if predicts == "denoiser" else tl.LeaveOneOut)
    assert_frequencies(
        sequence_counts(drive(model, 4, step, correct if corrections else None), K), chain(4, corrections)
    )


def test_temperature_is_the_schedulers_unless_a_positive_one_is_passed() -> None:
    logits, start = torch.randn(200, 3, 9, generator=generator()), torch.zeros(200, 3, dtype=torch.int64)

    def last(own: float, passed: float | None) -> Tensor:
        scheduler = TokenloomScheduler(num_inference_steps=1, temperature=own)
        return scheduler.step(logits, 0, start, temperature=passed, generator=generator()).prev_sample  # type: ignore[no-any-return]

    assert torch.equal(last(0.0, 0.0), logits.argmax(-1))
    assert torch.equal(last(0.5, None), last(0.5, 0.0))
    assert torch.equal(last(1.0, 0.5), last(0.5, None))
    assert not torch.equal(last(1.0, None), last(0.5, None))


def test_memory_begins_again_with_every_canvas_and_with_set_timesteps() -> None:
    logits, tokens = torch.randn(2, 5, 7, generator=generator()), torch.zeros(2, 5, dtype=torch.int64)
    scheduler = TokenloomScheduler(sampler="dndm", corrector="scan")

    def canvas() -> Tensor:
        source, found = generator(), tokens
        for index in range(3):
            found = scheduler.step(logits, index, found, generator=source).prev_sample
            found = scheduler.step_correct(logits, index, found, generator=source).prev_sample
        return found

    scheduler.set_timesteps(3)
    first = canvas()
    assert torch.equal(canvas(), first)
    scheduler.step(logits, 0, tokens)
    scheduler.set_timesteps(3)
    assert torch.equal(canvas(), first)


LOGITS, SAMPLE = torch.zeros(1, 2, 4), torch.zeros(1, 2, dtype=torch.int64)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": "nope"}, "no sampler 'nope'"),
        ({"sampler": "remasking"}, "remasking needs a process whose lost tokens become the mask"),
        ({"sampler": "gillespie"}, "state of its own"),
        ({"sampler": 3}, "sampler must be a text, got 3"),
        ({"corrector": "nope"}, "no corrector 'nope'"),
        ({"sampler": "ancestral + scan", "corrector": "informed"}, "names its corrector already"),
        ({"predicts": "score"}, "predicts must be denoiser or leave-one-out, got 'score'"),
        ({"truncates": "score"}, "truncates must be denoiser or leave-one-out, got 'score'"),
        ({"top_p": 2}, r"top_p must be in \(0, 1\], got 2"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"temperature": -1}, "temperature must be positive"),
        ({"num_inference_steps": 0}, "num_inference_steps must be at least 1, got 0"),
    ],
)
def test_wrong_options_get_a_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TokenloomScheduler(**options)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"timestep": 48}, r"timestep must be in 0..47, got 48; set_timesteps"),
        ({"timestep": -1}, "timestep must be in 0..47, got -1"),
        ({"sample": SAMPLE + 4}, "sample must hold ids in 0..3, got 4..4"),
        ({"sample": SAMPLE[:, :1]}, r"model_output must have shape \[1, 1, 'vocab'\], got \[1, 2, 4\]"),
        ({"model_output": LOGITS[0]}, "model_output must have shape"),
        ({"model_output": LOGITS * torch.nan}, "logits"),
        ({"sample": SAMPLE.float()}, "sample must be an int64 tensor"),
        ({"temperature": -1.0}, "temperature must be positive"),
        ({"generator": []}, "generators for 0 rows, but the batch has 1"),
    ],
)
def test_wrong_calls_get_a_sentence(call: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TokenloomScheduler().step(**{"model_output": LOGITS, "timestep": 0, "sample": SAMPLE} | call)


def test_a_correction_needs_a_corrector() -> None:
    with pytest.raises(ValueError, match="has no corrector"):
        TokenloomScheduler().step_correct(LOGITS, 0, SAMPLE)


def test_config_round_trips_and_can_be_changed(tmp_path: Path) -> None:
    kernels = {"sampler": "psi:kappa=0.9", "corrector": "random-scan:steps=2", "predicts": "leave-one-out"}
    made = TokenloomScheduler(num_inference_steps=20, temperature=0.8, top_p=0.9, top_k=30, **kernels)
    made.save_pretrained(tmp_path)
    loaded = TokenloomScheduler.from_pretrained(tmp_path)
    assert loaded.driven == made.driven
    assert loaded.config.corrector_steps == 2
    other = TokenloomScheduler.from_config(made.config, corrector=None, top_p=1.0)
    assert (other.config.corrector_steps, other.config.sampler) == (0, "psi:kappa=0.9")


class Processor:
    """Reads every prompt as the same five tokens, and writes ids."""

    tokenizer = SimpleNamespace(eos_token_id=None)

    def apply_chat_template(self, messages: list[Any], **options: Any) -> dict[str, Tensor]:
        return {"input_ids": torch.arange(5).expand(2, -1)}

    def batch_decode(self, rows: Tensor, **options: Any) -> list[str]:
        return [" ".join(map(str, row.tolist())) for row in rows]


@pytest.fixture(scope="module")
def network() -> Any:
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 16}
    kinds = ["sliding_attention", "sliding_attention", "full_attention"]
    experts = {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16}
    text = transformers.DiffusionGemmaTextConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_global_key_value_heads=1,
        sliding_window=8, layer_types=kinds, max_position_embeddings=256, use_bidirectional_attention="vision",
        **sizes, **experts,
    )  # fmt: skip
    vision = transformers.Gemma4VisionConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
        head_dim=8, patch_size=4, position_embedding_size=16, pooling_kernel_size=1,
    )  # fmt: skip
    images = {"image_token_id": 63, "boi_token_id": 62, "eoi_token_id": 61}
    config = transformers.DiffusionGemmaConfig(text_config=text, vision_config=vision, canvas_length=CANVAS, **images)
    torch.manual_seed(0)
    model = transformers.DiffusionGemmaForBlockDiffusion(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:  # as initialised, its logits are flat
            nn.init.normal_(parameter, std=0.3)
    return model


@pytest.fixture
def pipeline(network: Any) -> DiffusionGemmaPipeline:
    pipe = DiffusionGemmaPipeline(network, TokenloomScheduler(), Processor())
    pipe.set_progress_bar_config(disable=True)
    return pipe


def written(pipe: DiffusionGemmaPipeline, steps: int, seed: int = 0, **options: Any) -> Tensor:
    found: Tensor = pipe(
        "any", gen_length=2 * CANVAS, num_inference_steps=steps, generator=generator(seed), confidence_threshold=None,
        output_type="seq", **options,
    ).sequences  # fmt: skip
    return found


@pytest.mark.parametrize(("corrector", "budget", "steps"), [(None, 2, 2), ("informed", 4, 3), ("scan:steps=2", 6, 4)])
def test_pipeline_spends_its_budget_of_evaluations(
    pipeline: DiffusionGemmaPipeline, corrector: str | None, budget: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.scheduler = TokenloomScheduler(corrector=corrector, top_p=0.95)
    forward, calls = pipeline.model.forward, []

    def counted(**options: Any) -> Any:
        calls.append(options)
        return forward(**options)

    monkeypatch.setattr(pipeline.model, "forward", counted)
    tokens = written(pipeline, budget)
    assert len(calls) == 2 * budget  # two canvases
    assert pipeline.scheduler.num_inference_steps == steps  # the others are corrections
    assert tokens.shape == (2, 2 * CANVAS)
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < VOCABULARY


@pytest.mark.parametrize(("sampler", "predicts"), [("routing", "denoiser"), ("psi", "leave-one-out")])
def test_pipeline_draws_the_same_from_the_same_seed(
    pipeline: DiffusionGemmaPipeline, sampler: str, predicts: str
) -> None:
    pipeline.scheduler = TokenloomScheduler(sampler=sampler, corrector="random-scan", predicts=predicts)
    first = written(pipeline, 3)
    assert torch.equal(written(pipeline, 3), first)
    assert not torch.equal(written(pipeline, 3, seed=1), first)


def test_pipeline_stops_early_and_writes_text(pipeline: DiffusionGemmaPipeline) -> None:
    pipeline.scheduler = TokenloomScheduler(sampler="routing", temperature=0.0)
    found = pipeline("any", gen_length=CANVAS, num_inference_steps=4, confidence_threshold=9.0)
    assert [len(text.split()) for text in found.texts] == [CANVAS, CANVAS]


def test_saved_pipeline_brings_its_scheduler(network: Any, tmp_path: Path) -> None:
    made = DiffusionGemmaPipeline(network, TokenloomScheduler(sampler="psi", corrector="scan"), None)
    made.save_pretrained(tmp_path)
    others = {"model": network, "processor": Processor()}  # diffusers 0.42 finds the class of neither
    loaded = DiffusionGemmaPipeline.from_pretrained(tmp_path, **others)
    assert loaded.scheduler.driven == made.scheduler.driven

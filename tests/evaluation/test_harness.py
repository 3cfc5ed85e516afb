"""The harness gets what enumeration gives: log p of continuations, accuracies, perplexities and text."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.training.helpers import awake
from tokenloom.cli import main
from tokenloom.evaluation.harness import HarnessOptions, evaluate_tasks
from tokenloom.evaluation.harness.bounds import Row, Scorer, WideRows
from tokenloom.models.tokenizer import Characters
from tokenloom.nn.transformer import TransformerConfig

lm_eval = pytest.importorskip("lm_eval", reason="the harness is not installed; make test brings it")

from lm_eval.api.instance import Instance  # noqa: E402

from tokenloom.evaluation.harness.language_model import TokenloomLM  # noqa: E402

ALPHABET = "abc"
LENGTH = 6
DEVIATIONS = 5.0
"""Standard errors that an estimate may be off; a correct one is further away once in 1.7 million."""
INITIAL = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
TRANSITION = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.25, 0.6, 0.15]], dtype=torch.float64)
LAPS = torch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)
"""a -> b -> c -> a, always."""
PROCESSES = [tl.Masked(3), tl.Uniform(3), tl.AbsorbingUniform(3)]


def oracle(process: tl.Process, transition: torch.Tensor = TRANSITION, length: int = LENGTH) -> tl.MarkovOracle:
    return tl.MarkovOracle(INITIAL, transition, length, process, predicts=process.preferred)


def language_model(process: tl.Process, transition: torch.Tensor = TRANSITION, **options: Any) -> TokenloomLM:
    return TokenloomLM(oracle(process, transition), tokenizer=Characters(ALPHABET), **options)


def random_network(process: tl.Process) -> tl.DiffusionModel:
    """A network that no one trained, and that sees the time."""
    kind = tl.nn.CausalTransformer if process.sequential else tl.nn.DiT
    network = kind(TransformerConfig(3, process.input_states, LENGTH, 16, 1, 2, 8, time=not process.sequential))
    return awake(tl.DiffusionModel(network, process, None, process.preferred, Characters(ALPHABET)), std=0.3)


def log_p(context: str, continuation: str) -> float:
    """By the chain rule, which for a Markov chain is the enumeration of all sequences."""
    ids = [ALPHABET.index(letter) for letter in context + continuation]
    factors = [INITIAL[ids[0]], *(TRANSITION[first, second] for first, second in pairwise(ids))]
    return sum(math.log(factor) for factor in factors[len(context) :])


def row(context: str, continuation: str) -> Row:
    return Row(tuple(Characters(ALPHABET).encode(context + continuation)), len(context), context)


def asked(kind: str, *requests: tuple[Any, ...]) -> list[Instance]:
    return [Instance(request_type=kind, doc={}, arguments=arguments, idx=0) for arguments in requests]


def answers(model: TokenloomLM, *pairs: tuple[str, str]) -> list[tuple[float, bool]]:
    return model.loglikelihood(asked("loglikelihood", *pairs), disable_tqdm=True)


def written(model: TokenloomLM, *requests: tuple[str, dict[str, Any]]) -> list[str]:
    return model.generate_until(asked("generate_until", *requests), disable_tqdm=True)


def write_task(folder: Path, name: str, documents: list[dict[str, Any]], **settings: Any) -> None:
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(document) + "\n" for document in documents))
    config = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": str(folder / "cache")},
        "test_split": "test",
        "target_delimiter": "",
        **settings,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(config))  # JSON is YAML


def write_choices(folder: Path, documents: list[dict[str, Any]]) -> None:
    asked: Any = {"output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "choices"}
    metrics = [{"metric": "acc"}, {"metric": "acc_norm"}]
    write_task(folder, "choices", documents, doc_to_target="gold", metric_list=metrics, **asked)


QUESTIONS = [("aaa", ["aab", "cca"]), ("abc", ["bcb", "acc"]), ("ccb", ["cba", "baa"]), ("bcb", ["aaa", "cbc"])]


@pytest.mark.parametrize("process", PROCESSES)
def test_an_exact_model_answers_with_the_conditional_log_likelihood(process: tl.Process) -> None:
    model = language_model(process)
    pairs = [(question, choice) for question, choices in QUESTIONS for choice in choices] + [("", "abcbca")]
    found = answers(model, *pairs, pairs[0])
    assert found.pop() == found[0]  # identical choices get identical values
    for (context, continuation), (value, _), error in zip(pairs, found, model.errors[:-1], strict=True):
        assert 0 < error < 1
        assert abs(value - log_p(context, continuation)) < DEVIATIONS * error + 1e-3  # alpha_1 = 1e-3 is left


def test_one_lost_token_leaves_no_noise() -> None:
    model = language_model(tl.Masked(3), samples=2)
    found = answers(model, *(("abcbc", letter) for letter in ALPHABET))
    assert [value for value, _ in found] == pytest.approx([log_p("abcbc", letter) for letter in ALPHABET], abs=1e-9)
    assert [greedy for _, greedy in found] == [False, True, False]


def test_the_bound_over_lost_tokens_is_the_bound_over_time() -> None:
    model = random_network(tl.Masked(3, schedule=tl.LinearSchedule(eps=0.0)))
    asked_for = row("a", "cba")
    found = next(Scorer(model, samples=1024).scores([asked_for]))
    x_0, given = (part.expand(128, -1) for part in (asked_for.x_0, asked_for.given))
    over_time = tl.nelbo(model, x_0, 8, generator=torch.Generator().manual_seed(1), given=given)
    error = math.hypot(found.standard_error, over_time.standard_error)
    assert error < 0.3
    assert abs(found.nats - over_time.nats) < DEVIATIONS * error
    assert found.standard_error < over_time.standard_error  # of as many evaluations


@pytest.mark.parametrize("process", PROCESSES[:2])
def test_choices_share_their_noise(process: tl.Process) -> None:
    choices = [row("aaa", choice) for choice in ("bca", "bcc")]
    scores = [list(Scorer(oracle(process), samples=4, seed=seed).scores(choices)) for seed in range(160)]
    first, second = (torch.tensor([pair[choice].nats for pair in scores]) for choice in (0, 1))
    # of equal variances a ratio of 1.6, with 159 degrees of freedom each, comes about 2 times in 1,000
    assert (first - second).var() < (first - second.roll(1)).var() / 1.6


def test_a_position_draws_the_same_numbers_whatever_follows_it() -> None:
    short, long = (WideRows([3, 4], width=9) for _ in range(2))
    for _ in range(2):
        assert torch.equal(short.uniform((2, 5)), long.uniform((2, 9))[:, :5])


@pytest.mark.parametrize("process", PROCESSES[:2])
def test_the_batch_size_changes_nothing(process: tl.Process) -> None:
    pairs = [("aaa", "aab"), ("aab", "cbc")]
    first, second = (answers(language_model(process, samples=16, batch_size=size), *pairs) for size in (5, 64))
    assert [value for value, _ in first] == pytest.approx([value for value, _ in second])


def test_a_causal_model_is_exact() -> None:
    model = random_network(tl.LeftToRight(3))
    harness = TokenloomLM(model)
    pairs = [("ab", "cab"), ("ab", "c"), ("", "ca"), ("abc", "abc")]
    for (context, continuation), (value, greedy) in zip(pairs, answers(harness, *pairs), strict=True):
        x_0 = torch.tensor([model.encode(context + continuation)])
        clean = model.process.corrupt(x_0, torch.zeros(1))
        with torch.no_grad():
            laws = model.predict(clean).logits.log_softmax(-1)[0, len(context) :]  # type: ignore[attr-defined]
        tokens = x_0[0, len(context) :]
        assert value == pytest.approx(float(laws.gather(1, tokens[:, None]).sum()), abs=1e-5)
        assert greedy == bool((laws.argmax(-1) == tokens).all())
    assert harness.errors == [0.0] * 4
    assert harness.scorer.estimator == "exact, next token"


def test_greedy_decoding_unmasks_the_surest_first() -> None:
    """After a, the modes of both positions are a and c; given the surer c, b stands between them most often."""
    chain = torch.tensor([[0.4, 0.3, 0.3], [0, 0, 1], [0, 0.1, 0.9]], dtype=torch.float64)
    model = TokenloomLM(oracle(tl.Masked(3), chain, length=3), tokenizer=Characters(ALPHABET), samples=1)
    assert [greedy for _, greedy in answers(model, ("a", "bc"), ("a", "ac"))] == [True, False]


def test_a_text_is_scored_in_disjoint_windows_of_the_model() -> None:
    model = language_model(tl.Masked(3), samples=256)
    text = "abcbcaccbabb"
    (value,) = model.loglikelihood_rolling(asked("loglikelihood_rolling", (text,)), disable_tqdm=True)
    error = math.hypot(*model.errors)
    assert len(model.errors) == 2
    assert abs(value - log_p("", text[:6]) - log_p("", text[6:])) < DEVIATIONS * error


def test_a_long_context_loses_its_beginning() -> None:
    model = TokenloomLM(random_network(tl.Masked(3)), samples=4)
    long, short = (
        model._row((text, "ab"), model.tok_encode(text), model.tok_encode("ab")) for text in ("cccabca", "abca")
    )
    assert (long.tokens, long.context) == (short.tokens, short.context)
    assert model.shortened == 1


@pytest.mark.parametrize(
    ("process", "sampler"),
    [(tl.Masked(3), "confidence"), (tl.Uniform(3), "ancestral + random-scan"), (tl.Masked(3), "mudm")],
)
def test_text_continues_the_context_up_to_the_first_stop(process: tl.Process, sampler: str) -> None:
    model = language_model(process, LAPS, sampler=sampler, steps=32)
    settings = {"until": ["b", "zz"], "max_gen_toks": 4, "do_sample": False}
    found = written(model, ("ab", settings), ("ca", settings | {"until": []}), ("bc", settings))
    assert found == ["ca", "bcab", "a"]


def test_three_kinds_of_tasks_agree_with_enumeration(tmp_path: Path) -> None:
    best = [max((0, 1), key=lambda choice: log_p(question, choices[choice])) for question, choices in QUESTIONS]
    documents = [{"question": question, "choices": choices} for question, choices in QUESTIONS]
    wrong_once = [1 - best[0], *best[1:]]
    write_choices(tmp_path, [row | {"gold": gold} for row, gold in zip(documents, wrong_once, strict=True)])
    texts = ["abcbcaccbabb", "aaaaab"]
    metrics = [{"metric": name} for name in ("bits_per_byte", "byte_perplexity")]
    rolling: Any = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "metric_list": metrics}
    write_task(tmp_path, "texts", [{"page": text} for text in texts], doc_to_target="{{page}}", **rolling)
    options = HarnessOptions(samples=128)
    report = evaluate_tasks(oracle(tl.Masked(3)), [str(tmp_path)], options, tokenizer=Characters(ALPHABET))
    found = {(figure.task, figure.metric): figure for figure in report.figures}
    assert found["choices", "acc"].value == 0.75  # the gaps are more than 1 nat, many times the noise
    assert found["choices", "acc"].standard_error == pytest.approx(0.25)
    nats = -sum(log_p("", text[start : start + 6]) for text in texts for start in range(0, len(text), 6))
    assert report.noise_error is not None
    noise = DEVIATIONS * report.noise_error * math.sqrt(3)
    assert abs(found["texts", "bits_per_byte"].value * 18 * math.log(2) - nats) < noise
    assert report.scored == 8 + 3
    assert "any order, 128 samples per request, noise shared between choices" in report.notes[0]
    assert "slack" in report.notes[2]
    json.dumps(asdict(report))


def test_a_generation_task_gets_the_only_possible_text(tmp_path: Path) -> None:
    settings = {"until": ["\n"], "max_gen_toks": 4, "do_sample": False}
    generation: Any = {"output_type": "generate_until", "generation_kwargs": settings, "doc_to_text": "{{question}}"}
    generation["metric_list"] = [{"metric": "exact_match"}]
    model = oracle(tl.Masked(3), LAPS)
    for after_ab, after_bc, value in (("cab", "abc", 0.0), ("cabc", "abca", 1.0)):
        documents = [{"question": "ab", "answer": after_ab}, {"question": "bc", "answer": after_bc}]
        write_task(tmp_path, "texts", documents, doc_to_target="{{answer}}", **generation)
        report = evaluate_tasks(model, [str(tmp_path)], HarnessOptions(steps=16), tokenizer=Characters(ALPHABET))
        assert [(figure.metric, figure.value) for figure in report.figures] == [("exact_match", value)]
    assert report.notes == []


def test_the_harness_builds_the_model_from_its_arguments(tmp_path: Path) -> None:
    random_network(tl.Masked(3)).save(tmp_path / "model")
    text = f"pretrained={tmp_path / 'model'},samples=8,sampler=psi:kappa=0.9,corrector=none,temperature=1,seed=3"
    made = lm_eval.api.registry.get_model("tokenloom").create_from_arg_string(
        text, {"batch_size": "auto", "device": "cpu", "max_batch_size": None}
    )
    assert made.options == HarnessOptions(samples=8, sampler="psi:kappa=0.9", seed=3)
    assert str(made.device) == "cpu"
    with pytest.raises(ValueError, match="has no option 'sample'; did you mean sampler or samples"):
        TokenloomLM.create_from_arg_string(f"pretrained={tmp_path / 'model'},sample=8")


CANNOT: dict[str, Callable[[str], object]] = {
    "samples must be at least 1, got 0": lambda folder: language_model(tl.Masked(3), samples=0),
    r"top_p must be in \(0, 1\], got 1.5": lambda folder: language_model(tl.Masked(3), top_p=1.5),
    "no tokenizer; pass tokenizer=": lambda folder: TokenloomLM(oracle(tl.Masked(3))),
    "name a model, as in --model_args pretrained=FOLDER": lambda folder: TokenloomLM(),
    "max_gen_toks has 256 tokens, but .* 6": lambda folder: written(language_model(tl.Masked(3)), ("a", {})),
    "has 7 tokens, but the model reads 6": lambda folder: answers(language_model(tl.Masked(3)), ("a", "abcabca")),
    "adds no token to its context": lambda folder: answers(language_model(tl.Masked(3)), ("a", "")),
    "holds no task": lambda folder: evaluate_tasks(oracle(tl.Masked(3)), [folder]),
    "not both": lambda folder: evaluate_tasks(oracle(tl.Masked(3)), [folder, "arc_easy"]),
    "no task 'arc_eazy', .* did you mean": lambda folder: evaluate_tasks(oracle(tl.Masked(3)), ["arc_eazy"]),
}


@pytest.mark.parametrize("sentence", CANNOT)
def test_what_cannot_be_asked_is_a_sentence(sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        CANNOT[sentence](str(tmp_path))


def test_data_that_cannot_be_loaded_is_a_sentence(tmp_path: Path) -> None:
    write_task(tmp_path, "texts", [], dataset_path="/nowhere")
    with pytest.raises(ValueError, match=r"the data of texts could not be loaded .*give a folder of tasks"):
        evaluate_tasks(oracle(tl.Masked(3)), [str(tmp_path)])


def test_the_command_answers_tasks_and_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tasks").mkdir()
    choices = [" yonder window", " qxzzj vvkwq"]
    write_choices(tmp_path / "tasks", [{"question": "What light through", "choices": choices, "gold": 0}])
    arguments = ["--tasks", str(tmp_path / "tasks"), "--samples", "8", "--out", str(tmp_path / "out")]
    main(["evaluate", "shakespeare-udm-loo", *arguments])
    shown = capsys.readouterr().out
    assert "choices" in shown
    assert "lower bound, MarkovNELBO, 8 samples per request" in " ".join(shown.split())
    record = json.loads((tmp_path / "out" / "harness-shakespeare-udm-loo.json").read_text())
    assert record["provenance"]["model"] == "shakespeare-udm-loo"
    assert record["figures"][0]["value"] == 1.0  # words of the play are far likelier than letters at random


def test_the_package_is_imported_without_the_harness() -> None:
    """So that the registry of tasks can be read where lm_eval is not installed."""
    code = "import sys, tokenloom.evaluation.harness; sys.exit('lm_eval' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""The language-model evaluation harness (lm_eval, extra `harness`) for every model that `tl.load` knows.

    evaluate_tasks("folder", ["my_tasks/"])                                                 from Python
    tokenloom evaluate FOLDER --tasks my_tasks/                                             from the shell
    python -m tokenloom.evaluation.harness run --model tokenloom --model_args pretrained=FOLDER --tasks ...
                                                                                            the harness's own command
Importing this package does not import lm_eval; `harness.language_model` does.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenloom.models.protocol import Model
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.checks import check_least
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.registry import build
from tokenloom.support.words import nearest

AUTOMATIC = 64
"""The batch of `batch_size=auto`: rows are short, and the batch changes no figure."""
SLACK = "multiple choice compares lower bounds of log p, whose slack may differ between the choices"


@dataclass(frozen=True)
class HarnessOptions(SamplerOptions):
    """Settings of the sampler and of the bound."""

    samples: int = 128
    """Network evaluations behind each log-likelihood; a causal model is exact with one."""
    seed: int = 0
    """Seed of every random number."""
    batch_size: int = AUTOMATIC
    """Rows per network call."""
    max_gen_toks: int = 256
    """Tokens to generate where a task does not say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, samples=1, batch_size=1, max_gen_toks=1)
        self.sampler_value()  # a wrong name or number is refused here

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "HarnessOptions":
        """Build the options from what the harness parsed; an unknown one is answered with the nearest known name."""
        known = {name: value for name, value in values.items() if value is not None}  # what it reads `none` as
        size = known.get("batch_size", AUTOMATIC)
        known["batch_size"] = AUTOMATIC if str(size).startswith("auto") else int(size)
        return build(cls, known, "the model tokenloom")


@dataclass(frozen=True)
class TaskFigure:
    """One metric of one task."""

    task: str
    metric: str
    value: float
    standard_error: float | None
    """Over the documents of the task, where the harness knows it."""


@dataclass(frozen=True)
class TaskReport:
    """All figures of one model, and how they were computed."""

    figures: tuple[TaskFigure, ...]
    estimator: str
    exact: bool
    noise_error: float | None
    """Root mean square of the standard errors that noise leaves on single log-likelihoods, in nats, where known."""
    scored: int
    """Sequences scored: choices, and windows of texts."""
    shortened: int
    """Requests whose context was too long and lost its beginning."""
    options: HarnessOptions

    @property
    def notes(self) -> list[str]:
        """Caveats to print beside the figures."""
        found = [f"log-likelihoods: {self.estimator}"] if self.scored else []
        if self.scored and not self.exact:
            size = "unknown from so few samples" if self.noise_error is None else f"{self.noise_error:.3g} nats"
            found += [f"standard error of one log-likelihood from its noise: {size}", SLACK]
        if self.shortened:
            found.append(f"{self.shortened:,} contexts were too long for the model and lost their beginning")
        return found


def evaluate_tasks(
    model: Model | str | Path,
    tasks: Sequence[str],
    options: HarnessOptions | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    limit: int | None = None,
    device: str | None = None,
) -> TaskReport:
    """Run tasks of the harness, by name or all those of some folders; `limit` counts documents per task."""
    evaluate = optional("lm_eval", "harness").evaluate  # not simple_evaluate, which first describes the whole machine
    from tokenloom.evaluation.harness.language_model import TokenloomLM

    options = options or HarnessOptions()
    found = _load(list(tasks), options.seed)
    answering = TokenloomLM(model, tokenizer=tokenizer, device=device, **asdict(options))
    # of a metric that is not a mean, the standard error comes from 1,000 bootstrap draws
    results = evaluate(answering, found, limit=limit, bootstrap_iters=1000, log_samples=False)
    errors = [error for error in answering.errors if not math.isnan(error)]
    noise = math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else None
    scorer, scored = answering.scorer, len(answering.errors)
    figures = tuple(_figures(results["results"]))
    return TaskReport(figures, scorer.estimator, scorer.exact, noise, scored, answering.shortened, options)


def _load(tasks: list[str], seed: int) -> Mapping[str, Any]:
    """Load tasks and groups of the harness, from folders or by name, without examples unless they ask for some."""
    folders = [name for name in tasks if Path(name).is_dir()]
    if not tasks or (folders and len(folders) < len(tasks)):
        raise ValueError("give --tasks folders with task files, or names of tasks, not both")
    manager = optional("lm_eval.tasks", "harness").TaskManager(include_path=folders, include_defaults=not folders)
    names = sorted(manager.all_subtasks) if folders else tasks
    if not names:
        raise ValueError(f"{', '.join(folders)} holds no task; the harness reads YAML files with the key task")
    for name in names:
        if name not in manager.all_tasks:
            hint = nearest(name, manager.all_tasks)
            remedy = hint if hint.startswith("did") else "lm_eval ls tasks lists them"  # not all of thousands
            raise ValueError(f"the harness has no task {name!r}, nor is that a folder; {remedy}")
    try:
        with hub_or_cache(local=bool(folders)):
            loaded: Mapping[str, Any] = manager.load(names)
    except Exception as error:
        raise ValueError(
            f"the data of {', '.join(names)[:200]} could not be loaded ({type(error).__name__}: {str(error)[:300]}); "
            "give a folder of tasks whose data lie on disk, or run once with a connection to the Hub"
        ) from error
    for task in loaded["tasks"].values():
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=seed)
    return loaded


def _figures(results: Mapping[str, Mapping[str, Any]]) -> Iterator[TaskFigure]:
    """Read the harness's results: `metric,filter` -> value, with `metric_stderr,filter` beside it."""
    for task, values in results.items():
        for key, value in values.items():
            metric, comma, kind = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, int | float):
                continue
            error = values.get(f"{metric}_stderr,{kind}")
            known = float(error) if isinstance(error, int | float) else None
            yield TaskFigure(task, metric if kind == "none" else f"{metric} ({kind})", float(value), known)

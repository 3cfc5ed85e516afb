"""The public families of discrete diffusion models: how each is recognised, and what its output means.

A family says three things that no tensor says: which process the network denoises, which posterior its logits are, and
what it reads as its time.  V counts the rows of its embedding.  V = 50,258 means three different things: the tokens of
GPT-2 and a mask (MDLM, SEDD, GIDD), GPT-2 and [PAD] as one more token (Duo), GPT-2 and a row that is never used (the
paper's code under uniform noise).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenloom.cells import AbsorbingUniform, Hybrid, Masked, MaxCoupling, Uniform
from tokenloom.models.interop.ddit import Sizes, TimeInput
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule
from tokenloom.support.checks import nearest

Config = dict[str, Any]
EPS = 1e-3
"""The signal left at t = 1 in the log-linear schedule of the field, alpha = 1 - (1 - eps) t."""
SIGMA_MOST = -math.log(EPS)
BERT_ROWS, BERT_MASK = 30522, 103

PLUG_IN = "trained through the plug-in bridge, whose minimiser is the leave-one-out posterior"
MASKED = "under masked noise the logits at a mask are the denoiser"


@dataclass(frozen=True)
class Plan:
    """What a checkpoint is."""

    family: str
    process: Process
    predicts: type[Posterior]
    why: str
    """Why it predicts that."""
    time: TimeInput
    time_limits: tuple[float | None, float | None] = (0.0, SIGMA_MOST)
    packing: str = "sentences"
    """How the rows it was trained on were cut."""
    tokenizer: str | None = None
    """The name of its tokenizer on the Hub."""
    notes: tuple[str, ...] = ()
    """What to beware of."""


def plan_of(config: Config, sizes: Sizes, family: str, name: str, prefix: str) -> Plan:
    """What the checkpoint is, from its family and its config."""
    return FAMILIES[family](config, sizes, name, prefix)


def detect(config: Config, prefix: str) -> str:
    """The family a config belongs to."""
    kind = str(config.get("model_type", "")).lower()
    algorithm = str(_get(config, "algo.name") or "").lower()
    parameterization = str(config.get("parameterization") or "").lower()
    if kind == "dit" and "p_uniform" in config:
        return "gidd"
    if kind in ("bd3lm", "bamdlm"):
        return "bd3lm"
    if kind in FAMILIES:
        return kind
    if algorithm:
        return _algorithm(algorithm, prefix)
    if parameterization:
        return _parameterization(parameterization, config)
    if "graph" in config and "tokens" in config:
        return "sedd"
    known = ", ".join(FAMILIES)
    raise ValueError(
        f"nothing in its config says which family it belongs to; name one with --family, one of {known}"
        if not kind
        else f"models of type {kind} cannot be imported; known families are {known}"
    )


def _algorithm(name: str, prefix: str) -> str:
    """Duo's code and the paper's both write `algo.name`; only the paper's has the longer prefix."""
    if "diffusion.model." in prefix and name in PAPER:
        return "paper"
    names = {"duo_base": "duo", "distillation": "duo", "ot-finetune": "duo"}
    found = names.get(name, name)
    if found == "ar":
        raise ValueError("algo.name is ar, an autoregressive baseline; import a diffusion model")
    if found not in FAMILIES:
        raise ValueError(f"there is no algorithm {name}; {nearest(name, (*FAMILIES, *PAPER))}")
    return found


def _parameterization(name: str, config: Config) -> str:
    if name == "d3pm" and config.get("diffusion") == "uniform":
        return "udlm"
    found = {"subs": "mdlm", "sedd": "sedd"}.get(name)
    if found is None:
        raise ValueError(f"a checkpoint of parameterization {name} cannot be imported; known are subs, sedd and d3pm")
    return found


# -------------------------------------------------------------------- one function per family


def _mdlm(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    timed = _first(config, "time_conditioning", "algo.time_conditioning") is True
    return Plan("MDLM", _masked(sizes, EPS), Denoiser, MASKED, "sigma" if timed else "zero", tokenizer=_tokens(sizes))


def _bd3lm(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    block, length = config.get("block_size"), config.get("model_length")
    if block != length:
        raise ValueError(
            f"block_size {block} below model_length {length} means block diffusion, which is autoregressive over "
            "blocks, and there is no such process here; only the pretraining checkpoint, one block of "
            f"{length} tokens, is a masked diffusion model"
        )
    plan = _mdlm(config, sizes, name, prefix)
    return Plan("BD3LM, one block", plan.process, Denoiser, MASKED, "zero", tokenizer=plan.tokenizer)


def _sedd(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    graph = _get(config, "graph.type") or "absorb"
    if graph != "absorb":
        raise ValueError(f"SEDD with a graph of type {graph} was never released and cannot be imported")
    why = "its score at a mask is alpha / (1 - alpha) times the softmax of the raw logits, which is the denoiser"
    note = "the bound is that of the denoiser, which is never above SEDD's own: its score need not be normalised"
    packing = "wrap" if "graph" in config else "sentences"
    process = _masked(sizes, EPS)
    return Plan("SEDD", process, Denoiser, why, "sigma", packing=packing, tokenizer=_tokens(sizes), notes=(note,))


def _udlm(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    process = Uniform(sizes.rows, schedule=LinearSchedule(eps=EPS))
    return Plan("UDLM", process, LeaveOneOut, PLUG_IN, "sigma", packing="pad", tokenizer=_tokens(sizes))


def _duo(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    if config.get("causal") is True:
        raise ValueError("causal is true, so it is an autoregressive baseline; import a diffusion model")
    distilled = "distill" in f"{name} {_get(config, 'algo.name')}".lower()
    note = "it is distilled, a student of few steps and not a posterior: sample from it, but its bound means nothing"
    process = Uniform(sizes.rows, schedule=LinearSchedule(eps=EPS))
    notes = (note,) if distilled else ()
    title = "Duo, distilled" if distilled else "Duo"
    return Plan(title, process, LeaveOneOut, PLUG_IN, "sigma", tokenizer=_tokens(sizes), notes=notes)


def _gidd(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    share, edge = _number(config, "p_uniform"), _number(config, "t_eps", 1e-4)
    limits, tokens = (edge, 1 - edge), _tokens(sizes)
    if share == 0:
        return Plan("GIDD, masks only", _masked(sizes, 0.0), Denoiser, MASKED, "time", limits, tokenizer=tokens)
    process = Hybrid(sizes.rows - 1, p_uniform=share, schedule=LinearSchedule(eps=0.0))
    return Plan("GIDD", process, LeaveOneOut, PLUG_IN, "time", limits, tokenizer=tokens)


def _paper(config: Config, sizes: Sizes, name: str, prefix: str) -> Plan:
    algorithm = str(_get(config, "algo.name")).lower()
    given = str(_first(config, "algo.model_prediction", "model_prediction") or PAPER[algorithm])
    predictions: dict[str, type[Posterior]] = {"mean": Denoiser, "mean_loo": LeaveOneOut}
    if given not in predictions:
        raise ValueError(f"model_prediction must be mean or mean_loo, got {given}")
    schedule = LinearSchedule(eps=_number(config, "training.sampling_eps", EPS))
    title, tokens = f"paper ({algorithm})", _tokens(sizes)
    if algorithm in ("mdlm", "remdlm"):
        return Plan(title, _masked(sizes, schedule.eps), Denoiser, MASKED, "zero", tokenizer=tokens)
    used = sizes.rows - 1 if sizes.rows == 50258 else sizes.rows  # GPT-2 has no mask, and the row kept for it is unused
    kinds: dict[str, Any] = {
        "udlm": Uniform,
        "max_coupling": MaxCoupling,
        "audm": AbsorbingUniform,
        "reaudm": AbsorbingUniform,
    }
    process: Process = kinds[algorithm](used, schedule=schedule)
    why = f"its config says model_prediction {given}"
    return Plan(title, process, predictions[given], why, "sigma", tokenizer=tokens)


PAPER = {
    "mdlm": "mean",
    "remdlm": "mean",
    "udlm": "mean_loo",
    "max_coupling": "mean",
    "audm": "mean",
    "reaudm": "mean",
}
"""The algorithms of the paper's code, with what each predicts unless its config says otherwise."""

FAMILIES: dict[str, Callable[[Config, Sizes, str, str], Plan]] = {
    "mdlm": _mdlm,
    "udlm": _udlm,
    "duo": _duo,
    "sedd": _sedd,
    "gidd": _gidd,
    "bd3lm": _bd3lm,
    "paper": _paper,
}


def _masked(sizes: Sizes, eps: float) -> Process:
    """The mask is the last row; BERT's vocabulary has one of its own."""
    schedule = LinearSchedule(eps=eps)
    if sizes.rows == BERT_ROWS:
        return Masked(BERT_ROWS, mask_id=BERT_MASK, schedule=schedule)
    return Masked(sizes.rows - 1, schedule=schedule)


def _tokens(sizes: Sizes) -> str | None:
    return {50257: "gpt2", 50258: "gpt2", BERT_ROWS: "bert-base-uncased"}.get(sizes.rows)


# -------------------------------------------------------------------- configs


def _get(config: Config, path: str) -> Any:
    """A value by its path, or None."""
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _first(config: Config, *paths: str) -> Any:
    return next((value for path in paths if (value := _get(config, path)) is not None), None)


def _number(config: Config, path: str, default: float | None = None) -> float:
    value = _get(config, path)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{path} must be a number in [0, 1), got {value!r}")
    return float(value)


DECLARED = {
    "width": ("hidden_dim", "hidden_size", "model.hidden_size"),
    "depth": ("n_blocks", "num_hidden_layers", "model.n_blocks"),
    "heads": ("n_heads", "num_attention_heads", "model.n_heads"),
    "condition": ("cond_dim", "timestep_cond_dim", "model.cond_dim"),
    "length": ("model_length", "max_seq_len", "model.length"),
    "rows": ("vocab_size",),
}
"""What the families call the same number."""


def declared(config: Config, what: str) -> int | None:
    """A size that the config names, whatever it calls it."""
    value = _first(config, *DECLARED[what])
    if value is None or isinstance(value, str):  # an interpolation of the training config stays as its text
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{DECLARED[what][0]} must be a whole number of at least 1, got {value!r}")
    return value


def dropout(config: Config) -> float:
    """The dropout of its training, 0 where the config does not say."""
    value = _first(config, "dropout", "attention_dropout", "model.dropout")
    return float(value) if isinstance(value, int | float) and 0 <= value < 1 else 0.0


def check_declared(config: Config, sizes: Sizes) -> None:
    """Raise where the config contradicts the tensors."""
    for what in ("width", "depth", "heads", "condition", "rows"):
        said, found = declared(config, what), getattr(sizes, what)
        if said is not None and found is not None and said != found:
            name = next(path for path in DECLARED[what] if _get(config, path) is not None)
            raise ValueError(
                f"its config says {name} {said}, but the weights have {found}: they do not belong together"
            )

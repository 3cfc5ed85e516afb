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
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule
from tokenloom.support.words import nearest

Config = dict[str, Any]
EPS = 1e-3  # the signal left at t = 1 in the log-linear schedule of the field, alpha = 1 - (1 - eps) t
SIGMA: Config = {"clock": "sigma", "time_least": 0.0, "time_most": -math.log(EPS)}
ZERO: Config = {"time": False}
"""The options of a `DiT` whose time is sigma = -log alpha_t, or was always 0."""
BERT_ROWS, BERT_MASK = 30522, 103
TOKENIZERS = {50257: "gpt2", 50258: "gpt2", BERT_ROWS: "bert-base-uncased"}
"""Names on the Hub, by the rows of the embedding."""

PLUG_IN = "trained through the plug-in bridge, whose minimiser is the leave-one-out posterior"
MASKED = "under masked noise the logits at a mask are the denoiser"
SEDD_SCORE = "its score at a mask is alpha / (1 - alpha) times the softmax of the raw logits, which is the denoiser"
SEDD_BOUND = "the bound is that of the denoiser, which is never above SEDD's own: its score need not be normalised"
DISTILLED = "it is distilled, a student of few steps and not a posterior: sample from it, but its bound means nothing"

FAMILIES = ("mdlm", "udlm", "duo", "sedd", "gidd", "bd3lm", "paper")
PAPER: dict[str, tuple[Callable[..., Process] | None, str]] = {
    "mdlm": (None, "mean"),
    "remdlm": (None, "mean"),
    "udlm": (Uniform, "mean_loo"),
    "max_coupling": (MaxCoupling, "mean"),
    "audm": (AbsorbingUniform, "mean"),
    "reaudm": (AbsorbingUniform, "mean"),
}
"""The algorithms of the paper's code: the process (None if masked) and what it predicts unless the config says so."""
ALGORITHMS = {"duo_base": "duo", "distillation": "duo", "ot-finetune": "duo"}
"""Names of `algo.name` that are not those of their family."""
PARAMETERIZATIONS = {("subs", False): "mdlm", ("sedd", False): "sedd", ("d3pm", True): "udlm"}
"""Families by `parameterization`, and whether `diffusion` is uniform."""
SIZES = {
    "width": ("hidden_dim", "hidden_size", "model.hidden_size"),
    "depth": ("n_blocks", "num_hidden_layers", "model.n_blocks"),
    "heads": ("n_heads", "num_attention_heads", "model.n_heads"),
    "condition": ("cond_dim", "timestep_cond_dim", "model.cond_dim"),
    "length": ("model_length", "max_seq_len", "model.length"),
    "rows": ("vocab_size",),
}
"""Names that the families have for the same number."""


@dataclass(frozen=True)
class Plan:
    """Facts that no tensor tells: the process, the posterior and `why`, the `clock` (options of the `DiT`)."""

    family: str
    process: Process
    predicts: type[Posterior]
    why: str
    clock: Config
    packing: str = "sentences"  # of the rows it was trained on
    notes: tuple[str, ...] = ()  # warnings
    weights: str = "as stored"  # which of those in the file are taken
    tokenizer: str = ""  # its name on the Hub, where that is known
    untrained: str = ""  # why it is not a denoiser yet, if it is not


def family_of_type(config: Config) -> str | None:
    """Return the family that `model_type` names, or None."""
    kind = str(config.get("model_type", "")).lower()
    if kind == "dit" and "p_uniform" in config:
        return "gidd"
    return "bd3lm" if kind == "bamdlm" else kind if kind in FAMILIES else None


def detect(config: Config, prefix: str) -> str:
    """Return the family of a config, whose backbone has tensors under `prefix`."""
    if (found := family_of_type(config)) is not None:
        return found
    algorithm, name = (str(_first(config, key) or "").lower() for key in ("algo.name", "parameterization"))
    if algorithm:
        # Duo's code and the paper's both write algo.name; only the paper's has the longer prefix.
        if "diffusion.model." in prefix and algorithm in PAPER:
            return "paper"
        if algorithm == "ar":
            raise ValueError("algo.name is ar, an autoregressive baseline; import a diffusion model")
        found = ALGORITHMS.get(algorithm, algorithm)
        if found not in FAMILIES:
            raise ValueError(f"there is no algorithm {algorithm}; {nearest(algorithm, (*FAMILIES, *PAPER))}")
        return found
    if name:
        found = PARAMETERIZATIONS.get((name, name == "d3pm" and config.get("diffusion") == "uniform"))
        if found is None:
            raise ValueError(f"parameterization {name} cannot be imported; known are subs, sedd and uniform d3pm")
        return found
    if "graph" in config and "tokens" in config:
        return "sedd"
    kind, known = config.get("model_type"), ", ".join(FAMILIES)
    if kind:
        raise ValueError(f"models of type {str(kind).lower()} cannot be imported; known families are {known}")
    raise ValueError(f"nothing in its config says which family it belongs to; name one with --family, one of {known}")


def plan_of(config: Config, rows: int, family: str, name: str) -> Plan:
    """Return the plan of a checkpoint of a family, from its config, the rows of its embedding and its name."""
    match family:
        case "mdlm":
            timed = _first(config, "time_conditioning", "algo.time_conditioning") is True
            return Plan("MDLM", _masked(rows), Denoiser, MASKED, SIGMA if timed else ZERO)
        case "udlm":
            return Plan("UDLM", _uniform(rows), LeaveOneOut, PLUG_IN, SIGMA, "pad")
        case "duo":
            if config.get("causal") is True:
                raise ValueError("causal is true, so it is an autoregressive baseline; import a diffusion model")
            if "distill" in f"{name} {_first(config, 'algo.name')}".lower():
                return Plan("Duo, distilled", _uniform(rows), LeaveOneOut, PLUG_IN, SIGMA, notes=(DISTILLED,))
            return Plan("Duo", _uniform(rows), LeaveOneOut, PLUG_IN, SIGMA)
        case "sedd":
            graph = _first(config, "graph.type") or "absorb"
            if graph != "absorb":
                raise ValueError(f"SEDD with a graph of type {graph} was never released and cannot be imported")
            packing = "wrap" if "graph" in config else "sentences"
            return Plan("SEDD", _masked(rows), Denoiser, SEDD_SCORE, SIGMA, packing, (SEDD_BOUND,))
        case "gidd":
            return _gidd(config, rows)
        case "bd3lm":
            block, length = config.get("block_size"), config.get("model_length")
            if block != length:
                raise ValueError(
                    f"block_size {block} below model_length {length} means block diffusion, for which there is no "
                    f"process here; only the pretraining checkpoint, one block of {length} tokens, can be imported"
                )
            return Plan("BD3LM, one block", _masked(rows), Denoiser, MASKED, ZERO)
    return _paper(config, rows)


def _gidd(config: Config, rows: int) -> Plan:
    share, edge = _number(config, "p_uniform"), _number(config, "t_eps", 1e-4)
    clock = {"time_least": edge, "time_most": 1 - edge}
    if share == 0:
        return Plan("GIDD, masks only", _masked(rows, 0.0), Denoiser, MASKED, clock)
    process = Hybrid(rows - 1, p_uniform=share, schedule=LinearSchedule(eps=0.0))
    return Plan("GIDD", process, LeaveOneOut, PLUG_IN, clock)


def _paper(config: Config, rows: int) -> Plan:
    algorithm = str(_first(config, "algo.name")).lower()
    if algorithm not in PAPER:
        raise ValueError(f"algo.name must be one of the paper's algorithms ({', '.join(PAPER)}), got {algorithm}")
    kind, default = PAPER[algorithm]
    given = str(_first(config, "algo.model_prediction", "model_prediction") or default)
    predictions: dict[str, type[Posterior]] = {"mean": Denoiser, "mean_loo": LeaveOneOut}
    if given not in predictions:
        raise ValueError(f"model_prediction must be mean or mean_loo, got {given}")
    title, eps = f"paper ({algorithm})", _number(config, "training.sampling_eps", EPS)
    if kind is None:
        return Plan(title, _masked(rows, eps), Denoiser, MASKED, ZERO)
    used = rows - 1 if rows == 50258 else rows  # GPT-2 has no mask, and the row kept for it is unused
    process = kind(used, schedule=LinearSchedule(eps=eps))
    return Plan(title, process, predictions[given], f"its config says model_prediction {given}", SIGMA)


def _uniform(rows: int) -> Process:
    return Uniform(rows, schedule=LinearSchedule(eps=EPS))


def _masked(rows: int, eps: float = EPS) -> Process:
    """Build masked noise with the mask in the last row; BERT's vocabulary has a mask of its own."""
    size, mask = (rows, BERT_MASK) if rows == BERT_ROWS else (rows - 1, None)
    return Masked(size, mask_id=mask, schedule=LinearSchedule(eps=eps))


def declared_sizes(config: Config, found: dict[str, int]) -> dict[str, Any]:
    """Complete the sizes found in the tensors by those that the config declares, and raise where they differ."""
    sizes: dict[str, Any] = dict(found)
    for what, paths in SIZES.items():
        value, name = _first(config, *paths), paths[0]
        if value is None or isinstance(value, str):  # an interpolation of the training config stays as its text
            if what not in found:
                raise ValueError(f"neither the weights nor a config say {name}; write it to config.json beside them")
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if found.get(what, value) != value:
            name = next(path for path in paths if _first(config, path) is not None)
            raise ValueError(f"its config says {name} {value}, but the weights have {found[what]}")
        sizes[what] = value
    return sizes


def dropout(config: Config) -> float:
    """Return the dropout of its training, 0 if the config does not say."""
    value = _first(config, "dropout", "attention_dropout", "model.dropout")
    return float(value) if isinstance(value, int | float) and 0 <= value < 1 else 0.0


def _number(config: Config, path: str, default: float | None = None) -> float:
    value = _first(config, path)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{path} must be a number in [0, 1), got {value!r}")
    return float(value)


def _first(config: Config, *paths: str) -> Any:
    """Return the first value that is there under one of the dotted paths, or None."""
    for path in paths:
        value: Any = config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            return value
    return None

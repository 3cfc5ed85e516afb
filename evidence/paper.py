r"""The paper's own figures, to stand beside ours: perplexities of Table `tab:ppl-eval-multidataset_ppl`.

A difference of bounds in nats per token is a difference of log perplexities.  OWT is the text that the paper's networks
were trained on, 170M parameters and 1,024 positions; the six others are zero-shot.
"""

import math

PERPLEXITY = {
    "audm": (23.32, 61.37, 45.87, 72.02, 72.21, 43.01, 33.22),
    "udm-denoiser-ce": (25.45, 74.03, 49.04, 83.43, 84.13, 44.66, 39.17),
    "udm-loo-ce": (25.18, 72.66, 46.91, 81.54, 87.79, 43.72, 36.67),
    "udm-denoiser-nelbo": (25.20, 73.33, 46.80, 80.33, 84.94, 45.75, 37.44),
    "udm-loo-nelbo": (25.30, 73.82, 46.22, 82.03, 83.24, 44.52, 37.23),
    "max-coupling": (32.21, 109.97, 62.44, 112.70, 106.53, 61.20, 49.41),
    "mdm": (22.90, 64.57, 48.79, 73.06, 74.99, 43.13, 35.16),
}
"""OWT, AG News, Lambada, LM1B, PTB, PubMed and WikiText, by arm."""


def log_differences(favoured: str, other: str) -> tuple[float, ...]:
    """How many nats per token the favoured arm is ahead, by text."""
    return tuple(math.log(theirs / ours) for ours, theirs in zip(PERPLEXITY[favoured], PERPLEXITY[other], strict=True))


def in_the_paper(favoured: str, other: str) -> str:
    """The paper's figure for a comparison of two arms, in words; empty where it has none."""
    if favoured not in PERPLEXITY or other not in PERPLEXITY:
        return ""
    own, *zero_shot = log_differences(favoured, other)
    return f"{own:.3f} (OWT), {sum(zero_shot) / len(zero_shot):.3f} (zero-shot)"

"""C1: under cross-entropy the leave-one-out parameterisation beats the denoiser."""

from evidence.claim import Claim, bounds
from evidence.pictures import Bounds

CLAIM = Claim(
    name="c1",
    title="Under cross-entropy, the leave-one-out parameterisation beats the denoiser",
    source="Table `tab:ppl-eval-multidataset_ppl`, Figure `fig:training_loss_loo_denoiser`",
    comparisons=bounds("udm-loo-ce", "udm-denoiser-ce"),
    picture=Bounds(("udm-loo-ce", "udm-denoiser-ce")),
    run="""Two uniform diffusion networks that differ in what their output is taken for, both trained with the
cross-entropy of the denoiser.""",
    found="",
    limits="""The networks are small, and those of text8 far from their plateau.""",
)

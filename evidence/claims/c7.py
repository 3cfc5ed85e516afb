"""C7: leave-one-out-trained networks depend less on their own token."""

from evidence.claim import Claim, Comparison, Difference, Figure, Role
from evidence.pictures import OwnTokens


def _depends_less(favoured: str, other: str, settings: tuple[str, ...], role: Role = "claim") -> tuple[Comparison, ...]:
    return tuple(
        Difference(
            f"own-token dependence of {favoured} against {other}",
            setting,
            "total variation",
            role=role,
            favoured=Figure(favoured, "own token", "total_variation"),
            other=Figure(other, "own token", "total_variation"),
        )
        for setting in settings
    )


UDM = ("udm-loo-ce", "udm-loo-nelbo", "udm-denoiser-ce", "udm-denoiser-nelbo")
BOTH = ("chain", "stories")

CLAIM = Claim(
    name="c7",
    title="Networks trained as leave-one-out posteriors depend less on their own token",
    source="Appendix `app:loo-sensitivity`, Figure `fig:loo-sensitivity`",
    comparisons=(
        *_depends_less("udm-loo-ce", "udm-denoiser-ce", BOTH),
        *_depends_less("udm-loo-nelbo", "udm-denoiser-nelbo", ("chain",)),
        *_depends_less("udm-loo-ce", "max-coupling", ("chain",), "context"),
    ),
    beside=(("chain", "hollow", "own token"),),
    picture=OwnTokens(
        ("udm-loo-ce", "udm-loo-nelbo", "udm-denoiser-ce", "udm-denoiser-nelbo", "max-coupling", "hollow")
    ),
    run="""The networks of C1 and C3. A token is replaced by others while its surroundings stay, and the
leave-one-out prediction at its place is compared; five times, four positions of 64 sequences each. A hollow
network, which cannot see its own token, is the zero.""",
    found="""With both losses the denoiser's converted prediction depends more on the token at its place, on the
chain. The runs on text are not made yet.""",
    limits="""A smaller dependence is a property of the optimum, where it is 0, and not a quality in itself.""",
    pending=True,
)

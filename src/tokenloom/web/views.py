"""Views: how the playground draws, fills and solves the sequences of one kind of data.

A package names its view in the entry-point group `tokenloom.views`, under the name of its data source.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tokenloom.models.model import DiffusionModel
from tokenloom.samplers import Sampler
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.run import OnStep
from tokenloom.support.registry import Registry
from tokenloom.web.requests import Draw

OnTry = Callable[[int], None]


class View:
    """The playground's knowledge of one kind of data; this one knows nothing, and is that of unregistered data."""

    name: ClassVar[str] = "this"
    questions: ClassVar[Sequence[tuple[str, type, Callable[[Any], dict[str, Any]]]]] = ()
    """Further questions of the page: path, dataclass of the request, and the function that answers it."""

    def layout(self, length: int | None) -> dict[str, Any] | None:
        """Return how the page draws `length` tokens: the `kind` in views.js and its sizes; None if they do not fit."""
        return None

    def solve(
        self, model: DiffusionModel, sampler: Sampler, request: Draw, given: GivenTokens, on_step: OnStep, on_try: OnTry
    ) -> dict[str, Any]:
        """Draw until the sequence is valid, at most `request.tries` times; `on_try` is called with each try's number.

        Return the `tokens`, their `evaluations`, the number of `tries` and whether they are `solved`.
        """
        raise ValueError(f"{self.name} data has no rules that a sequence could obey; draw once instead")

    def program(self, request: Draw, settings: str, name: str, length: int) -> str:
        """Return Python lines that leave in `tokens` what `solve` draws; `settings` is for `tl.Sampler.parse`."""
        raise ValueError(f"{self.name} data has no rules that a sequence could obey; draw once instead")


VIEWS: Registry[View] = Registry("view", "tokenloom.views", "tokenloom.web.views")

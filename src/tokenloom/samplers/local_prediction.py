"""Predictions at some positions of a batch, and what is drawn from them there."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.couplings.mixtures import Mixture
from tokenloom.drawing.categorical import draw_each
from tokenloom.posteriors import OverTokens
from tokenloom.state import Noisy, Positions
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Positions
    """These positions in the batch."""
    noisy: Noisy
    """Their state, [positions, 1]."""
    posterior: OverTokens
    """Their prediction, [positions, 1, vocab]."""

    def among(self, flags: Flags) -> "LocalPrediction":
        """Keep those of these positions that are flagged; flags elsewhere in the batch are not read."""
        chosen = self.where.take(flags).squeeze(1).nonzero().squeeze(1)
        where = Positions(self.where.row[chosen], self.where.column[chosen])
        posterior = replace(self.posterior, logits=self.posterior.logits[chosen])
        return LocalPrediction(where, self.noisy.sequences(chosen), posterior)

    def of_row(self, values: PerRow) -> Float[Tensor, "positions"]:
        """Take the value of each position's row."""
        return values[self.where.row]

    def of_position(self, values: Float[Tensor, "batch length"]) -> Float[Tensor, "positions 1"]:
        """Take the values of these positions."""
        return self.where.take(values)

    def put(self, tokens: Tokens, drawn: Int[Tensor, "positions 1"]) -> Tokens:
        """Replace the tokens of these positions."""
        return self.where.put(tokens, drawn)

    def draw(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """Replace the tokens of these positions by draws from the prediction."""
        return self.put(tokens, draw_each(self.posterior.logits, self.of_position(u)))

    def draw_from(self, law: Mixture, tokens: Tokens, branch: PerPosition, token: PerPosition) -> Tokens:
        """Replace the tokens of these positions by draws from a law over them."""
        return self.put(tokens, law.invert(self.of_position(branch), self.of_position(token)))

"""Predictions at some positions of a batch, and what is drawn from them there."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_each
from tokenloom.posteriors import OverTokens
from tokenloom.processes.mixtures import Mixture
from tokenloom.state import Noisy, Positions
from tokenloom.types import PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Positions
    """These positions in the batch."""
    noisy: Noisy
    """Their state, [positions, 1]."""
    posterior: OverTokens
    """Their prediction, [positions, 1, vocab]."""

    def of_row(self, values: PerRow) -> Float[Tensor, "positions"]:
        """From one value per row, the one of each position's row.

        Args:
            values: One value per row of the batch.

        Returns:
            One value per position.
        """
        return values[self.where.row]

    def of_position(self, values: Float[Tensor, "batch length"]) -> Float[Tensor, "positions 1"]:
        """From one value per position of the batch, those of these positions.

        Args:
            values: One value per position of the batch.

        Returns:
            One value per position asked about.
        """
        return self.where.take(values)

    def put(self, tokens: Tokens, drawn: Int[Tensor, "positions 1"]) -> Tokens:
        """The batch's tokens with those of these positions replaced.

        Args:
            tokens: The tokens of the batch.
            drawn: The new tokens.

        Returns:
            New tokens of the batch.
        """
        return self.where.put(tokens, drawn)

    def draw(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from the prediction.

        Args:
            tokens: The tokens of the batch.
            u: Uniform numbers for every position of the batch.

        Returns:
            New tokens of the batch.
        """
        return self.put(tokens, draw_each(self.posterior.logits, self.of_position(u)))

    def draw_from(self, law: Mixture, tokens: Tokens, branch: PerPosition, token: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from a law over them.

        Args:
            law: A law over these positions, such as the bridge at `noisy`.
            tokens: The tokens of the batch.
            branch: Uniform numbers that choose the branch, for every position of the batch.
            token: Uniform numbers that choose the token, likewise.

        Returns:
            New tokens of the batch.
        """
        return self.put(tokens, law.invert(self.of_position(branch), self.of_position(token)))

"""A network, a process, what it predicts and what is known of it; saved, loaded, bundled."""

from tokenloom.models.model import DiffusionModel
from tokenloom.models.protocol import Model

__all__ = ["DiffusionModel", "Model"]

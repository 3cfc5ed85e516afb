"""Exact posteriors of known distributions, usable wherever a network is."""

from tokenloom.oracles.exact import ExactModel
from tokenloom.oracles.markov import MarkovOracle
from tokenloom.oracles.table import Oracle

__all__ = ["ExactModel", "MarkovOracle", "Oracle"]

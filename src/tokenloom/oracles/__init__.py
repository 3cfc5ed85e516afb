"""Exact posteriors of known distributions, usable wherever a network is."""

from tokenloom.oracles.exact import ExactModel as ExactModel
from tokenloom.oracles.exact import Oracle as Oracle
from tokenloom.oracles.markov import MarkovOracle as MarkovOracle

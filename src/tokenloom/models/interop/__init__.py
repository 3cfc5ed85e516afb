"""Checkpoints of other libraries as native models, without their code."""

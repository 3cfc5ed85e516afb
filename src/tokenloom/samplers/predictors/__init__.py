"""Predictors; each registers itself by name."""

"""Evaluation of models: likelihood, metrics of samples, judges, and the leave-one-out probe."""

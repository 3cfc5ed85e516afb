"""What a model is worth: likelihood, metrics of samples, judges, and the leave-one-out probe."""

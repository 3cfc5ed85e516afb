"""One predictor a file; each registers itself."""

"""One predictor per file; each registers itself."""

"""One corrector per file; each registers itself."""

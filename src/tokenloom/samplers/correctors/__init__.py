"""One corrector a file; each registers itself."""

"""Correctors; each registers itself by name."""

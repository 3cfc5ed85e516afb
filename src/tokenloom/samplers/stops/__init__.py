"""Stop rules; each registers itself by name."""

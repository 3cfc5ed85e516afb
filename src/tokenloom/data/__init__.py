"""Where clean sequences come from; local files first."""

"""Sources of clean sequences; local files first."""

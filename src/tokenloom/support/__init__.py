"""What every room leans on: checks, registries, files, optional libraries."""

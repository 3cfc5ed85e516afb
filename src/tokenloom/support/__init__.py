"""Shared by all rooms: checks, registries, files, optional libraries."""

"""`python -m tokenloom`, the same as the `tokenloom` command."""

from tokenloom.cli import main

main()

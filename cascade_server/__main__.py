"""`python -m cascade_server` is the command `cascade`."""

from .cli import main

main()

"""`python -m cascade_worker`: the worker without the rest of the `cascade` command."""

from __future__ import annotations

import typer

from .cli import register

app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
register(app)

if __name__ == "__main__":
    app(prog_name="cascade worker")

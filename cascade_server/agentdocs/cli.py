"""Declares `cascade docs`. What builds the documents is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

docs_app = typer.Typer(no_args_is_help=True)

Output = Annotated[
    Path, typer.Option("--output", envvar="CASCADE_DOCS_OUTPUT", help="Folder to write them into.", show_default=True)
]


def register(app: typer.Typer) -> None:
    """Add the group to `cascade`."""
    app.add_typer(docs_app, name="docs", help="The documents that every server also serves.")


@docs_app.callback()
def _group() -> None:
    # With a callback the group keeps its one command as a word of its own.
    pass


@docs_app.command("build")
def build(output: Output = Path("docs")) -> None:
    """Write the agent prompt and skill, llms.txt, llms-full.txt, OpenAPI and the API reference as files."""
    from .build import write

    try:
        written = write(output)
    except OSError as error:
        typer.echo(f"cascade: {output} can't be written: {error.strerror}.", err=True)
        raise typer.Exit(1) from error
    for path in written:
        typer.echo(path)

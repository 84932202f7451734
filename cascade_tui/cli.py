"""The command `cascade tui`. Textual is imported only when it runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8000"


def token_path() -> Path:
    """Where a server on this machine keeps its token."""
    data_dir = os.environ.get("CASCADE_DATA_DIR")
    if data_dir:
        return Path(data_dir).expanduser() / "token"
    import platformdirs

    return platformdirs.user_data_path("cascade") / "token"


def find_token(token_file: Path | None) -> str | None:
    """The token: from CASCADE_TOKEN, else from the file named, else from the server's own file if it is there.

    Raises OSError when a file that was named can't be read.
    """
    token = os.environ.get("CASCADE_TOKEN", "").strip()
    if token:
        return token
    if token_file is not None:
        return token_file.expanduser().read_text(encoding="utf-8").strip() or None
    try:
        return token_path().read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def run_tui(url: str, token: str | None) -> int:
    """Run the terminal app until it is left; give the exit code."""
    from .app import CascadeApp

    app = CascadeApp(url, token)
    app.run()
    return app.return_code or 0


def register(app: typer.Typer) -> None:
    """Add `tui` to the command `cascade`."""

    @app.command("tui")
    def tui(
        url: Annotated[str, typer.Option(envvar="CASCADE_URL", help="The server to watch.")] = DEFAULT_URL,
        token_file: Annotated[
            Path | None,
            typer.Option(
                envvar="CASCADE_TOKEN_FILE",
                help="File with the token, where CASCADE_TOKEN isn't set.",
                show_default="token in the data folder",
            ),
        ] = None,
    ) -> None:
        """Watch traces, runs and sims live in the terminal."""
        try:
            token = find_token(token_file)
        except OSError as error:
            typer.echo(f"The token file can't be read: {error}", err=True)
            raise typer.Exit(2) from error
        raise typer.Exit(run_tui(url, token))

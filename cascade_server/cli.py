"""The command `cascade`. The other packages add their own commands through the entry points `cascade.commands`.

Nothing heavy is imported until a command runs: `cascade --version` and shell completion must be quick.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__
from .agentdocs.cli import register as register_docs_commands
from .command_line.commands import register as register_client_commands

app = typer.Typer(
    name="cascade",
    help="Launch, watch and compare many Accel-Sim simulations of one GPU trace.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cascade {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


def _option(name: str, text: str, default: str | bool = False) -> Any:
    variable = "CASCADE_" + name.split("/")[0].lstrip("-").upper().replace("-", "_")
    return typer.Option(name, envvar=variable, help=text, show_default=default)


Host = Annotated[str | None, _option("--host", "Address to listen on.", "127.0.0.1")]
Port = Annotated[int | None, _option("--port", "Port to listen on; 0 takes a free one.", "8000")]
DataDir = Annotated[Path | None, _option("--data-dir", "Folder for the database, the token and the sims.")]
Traces = Annotated[str | None, _option("--traces", "Folder of traces.", "traces in the data folder")]
AccelsimDir = Annotated[
    Path | None, _option("--accelsim-dir", "Accel-Sim's checkout, the folder that holds gpu-simulator.")
]
Simulator = Annotated[str | None, _option("--simulator", "What sims run: auto, accelsim or replay.", "auto")]
ReplayLog = Annotated[Path | None, _option("--replay-log", "A recording to replay instead of the bundled ones.")]
ReplaySpeed = Annotated[
    float | None, _option("--replay-speed", "Replay so many times faster than recorded; 0: at once.", "4")
]
LauncherName = Annotated[str | None, _option("--launcher", "How sims start: local or none.", "local")]
MaxLocalSims = Annotated[int | None, _option("--max-local-sims", "Sims at once on this machine.", "its cores")]
HeartbeatTimeout = Annotated[
    float | None, _option("--heartbeat-timeout-s", "Seconds of silence after which a sim is lost.", "60")
]
MaxFileBytes = Annotated[
    int | None, _option("--max-file-bytes", "The largest output file a worker may store.", "1 GiB")
]
Samples = Annotated[bool | None, _option("--samples/--no-samples", "Show the bundled demo and samples.", "yes")]
PublicUrl = Annotated[str | None, _option("--public-url", "The URL under which workers reach this server.")]
Workspace = Annotated[str | None, _option("--workspace", "A name that health shows, to tell servers apart.")]
NoAuth = Annotated[bool | None, _option("--no-auth/--auth", "Turn the token check off; only on loopback.", "auth")]


@app.command()
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    traces: Traces = None,
    accelsim_dir: AccelsimDir = None,
    simulator: Simulator = None,
    replay_log: ReplayLog = None,
    replay_speed: ReplaySpeed = None,
    launcher: LauncherName = None,
    max_local_sims: MaxLocalSims = None,
    heartbeat_timeout_s: HeartbeatTimeout = None,
    max_file_bytes: MaxFileBytes = None,
    samples: Samples = None,
    public_url: PublicUrl = None,
    workspace: Workspace = None,
    no_auth: NoAuth = None,
) -> None:
    """Run the server until Ctrl-C or SIGTERM; running sims go on without it.

    The token clients need comes from CASCADE_TOKEN, else the server makes one and keeps it in the data folder.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    from .commands import run_server

    raise typer.Exit(run_server(given))


@app.command()
def up(
    port: Port = None,
    data_dir: DataDir = None,
    traces: Traces = None,
    accelsim_dir: AccelsimDir = None,
    replay_speed: ReplaySpeed = None,
    max_local_sims: MaxLocalSims = None,
) -> None:
    """Start a server here, unless one runs already, and open the terminal app on it.

    When the app is left the server stops too, but stays while sims are unfinished.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    from .commands import run_up

    raise typer.Exit(run_up(given))


@app.command()
def down(data_dir: DataDir = None) -> None:
    """Stop the server that `cascade up` left running; running sims go on and report to the next one."""
    given = {name: value for name, value in locals().items() if value is not None}
    from .commands import run_down

    raise typer.Exit(run_down(given))


register_client_commands(app)
register_docs_commands(app)


def main() -> None:
    """The entry point `cascade`."""
    for entry in entry_points(group="cascade.commands"):
        entry.load()(app)
    sys.exit(app())

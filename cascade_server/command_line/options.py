"""The options that several commands share; typer and the standard library only."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

EXIT_CODES = (
    "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no answer from the server, 130 Ctrl-C, "
    "141 the reader of the output has gone."
)
WATCH_CODES = (
    "Exit codes: 0 the run succeeded, 4 it ended otherwise, 1 refused, 2 wrong usage, 3 no answer from the server, "
    "130 Ctrl-C (the run goes on), 141 the reader of the output has gone."
)
CREATE_CODES = (
    "Exit codes: 0 launched, or with --watch succeeded; 4 watched, and it ended otherwise; 1 refused, 2 wrong usage, "
    "3 no answer from the server, 130 Ctrl-C (the run goes on), 141 the reader of the output has gone."
)


class ExportFormat(StrEnum):
    """What `run export` writes."""

    CSV = "csv"
    JSON = "json"
    PERFETTO = "perfetto"


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="CASCADE_URL",
        help="The server.",
        show_default="the one that runs here, else http://127.0.0.1:8000",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="CASCADE_TOKEN_FILE",
        help="File with the token, where CASCADE_TOKEN isn't set.",
        show_default="for a server on this machine, the token in its data folder",
    ),
]
Json = Annotated[bool, typer.Option("--json", envvar="CASCADE_JSON", help="Print the API's JSON, for programs.")]
JsonEvents = Annotated[
    bool, typer.Option("--json", envvar="CASCADE_JSON", help="Print the API's events, one line of JSON each.")
]
JsonRun = Annotated[
    bool,
    typer.Option(
        "--json", envvar="CASCADE_JSON", help="Print the API's JSON; with --watch its events, one line of JSON each."
    ),
]
GiveUpAfter = Annotated[
    float,
    typer.Option(
        "--give-up-after",
        envvar="CASCADE_GIVE_UP_AFTER",
        min=0,
        metavar="SECONDS",
        help="How long to try again once the connection is lost.",
    ),
]
On = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        envvar="CASCADE_RUN_ON",
        metavar="CONFIG[:COUNT]",
        help="A GPU config and how many sims of it (without a count: one); may be repeated.",
        show_default="the config that the trace suggests",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", envvar="CASCADE_RUN_WATCH", help="Watch the run until it ends.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", envvar="CASCADE_RUN_YES", help="Launch more than 4 sims without asking.")
]
Format = Annotated[
    ExportFormat,
    typer.Option(
        "--format",
        envvar="CASCADE_EXPORT_FORMAT",
        help="csv: a row for each kernel of each sim; json: everything, with full statistics; perfetto: a timeline "
        "for ui.perfetto.dev.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        envvar="CASCADE_EXPORT_OUTPUT",
        help="File to write, or a folder to write it in.",
        show_default="named after the run, in this folder",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", envvar="CASCADE_EXPORT_FORCE", help="Overwrite the file if it is there.")
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", envvar="CASCADE_LOG_FOLLOW", help="Go on until the sim has ended.")
]
Tail = Annotated[
    int | None,
    typer.Option(
        "--tail", "-n", envvar="CASCADE_LOG_TAIL", min=0, metavar="N", help="Only the last N lines.", show_default="all"
    ),
]

TraceId = Annotated[str, typer.Argument(metavar="TRACE", help="A trace's id, as `cascade traces` shows it.")]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or `last` for the newest run.")
]
SimId = Annotated[str, typer.Argument(metavar="SIM", help="A sim's id, as `cascade run show` shows it.")]

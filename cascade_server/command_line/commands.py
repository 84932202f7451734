"""Declares the client commands. Whatever they need beyond typer is imported when one runs."""

from __future__ import annotations

import typer

from . import options as o
from .group import ShowGroup

GIVE_UP_AFTER_S = 600.0

trace_app = typer.Typer(
    cls=ShowGroup, no_args_is_help=True, subcommand_metavar="TRACE | COMMAND [ARGS]...", epilog=o.EXIT_CODES
)
"""`cascade trace`: further commands are added here; an id in place of a command shows the trace."""

run_app = typer.Typer(no_args_is_help=True, epilog=o.EXIT_CODES)
sim_app = typer.Typer(no_args_is_help=True, epilog=o.EXIT_CODES)


def register(app: typer.Typer) -> None:
    """Add the client commands to `cascade`."""
    app.command("traces", epilog=o.EXIT_CODES)(traces)
    app.add_typer(trace_app, name="trace", help="One trace: `cascade trace TRACE` shows it.")
    app.command("configs", epilog=o.EXIT_CODES)(configs)
    app.command("runs", epilog=o.EXIT_CODES)(runs)
    app.add_typer(run_app, name="run", help="One run: launch, watch, compare, export it.")
    app.add_typer(sim_app, name="sim", help="One sim: its log and files.")


def traces(url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """List the traces in every state, newest first."""
    from . import connect
    from .traces import list_traces

    connect.run(url, token_file, lambda client: list_traces(client, as_json))


@trace_app.command("show", epilog=o.EXIT_CODES)
def trace_show(trace: o.TraceId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """Show a trace and its kernels; `cascade trace TRACE` is short for it."""
    from . import connect
    from .traces import show_trace

    connect.run(url, token_file, lambda client: show_trace(client, trace, as_json))


def configs(url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """List the GPU configs that sims can run on."""
    from . import connect
    from .traces import list_configs

    connect.run(url, token_file, lambda client: list_configs(client, as_json))


def runs(url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """List the runs, newest first."""
    from . import connect
    from .runs import list_runs

    connect.run(url, token_file, lambda client: list_runs(client, as_json))


@run_app.command("create", epilog=o.CREATE_CODES)
def run_create(
    trace: o.TraceId,
    on: o.On = None,
    watch: o.Watch = False,
    yes: o.Yes = False,
    give_up_after: o.GiveUpAfter = GIVE_UP_AFTER_S,
    url: o.Url = None,
    token_file: o.TokenFile = None,
    as_json: o.JsonRun = False,
) -> None:
    """Launch sims of a trace; asks before it launches more than 4.

    After exit code 3 look with `cascade runs` before you try again: the run may have been made.
    """
    from . import connect
    from .create import confirm, create_run, parse_entries

    entries = parse_entries(on or [])
    confirm(trace, entries, yes)
    patience = give_up_after if watch else None
    connect.run(url, token_file, lambda client: create_run(client, trace, entries, as_json, patience))


@run_app.command("show", epilog=o.EXIT_CODES)
def run_show(run: o.RunId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """Show a run and its sims, with the reason of each that failed."""
    from . import connect
    from .runs import show_run

    connect.run(url, token_file, lambda client: show_run(client, run, as_json))


@run_app.command("watch", epilog=o.WATCH_CODES)
def run_watch(
    run: o.RunId,
    give_up_after: o.GiveUpAfter = GIVE_UP_AFTER_S,
    url: o.Url = None,
    token_file: o.TokenFile = None,
    as_json: o.JsonEvents = False,
) -> None:
    """Watch a run until it ends: bars on a terminal, else a line for each state and kernel.

    A lost connection is taken up again. Ctrl-C stops watching, not the run.
    """
    from . import connect
    from .watch import watch_run

    connect.run(url, token_file, lambda client: watch_run(client, run, as_json, give_up_after))


@run_app.command("cancel", epilog=o.EXIT_CODES)
def run_cancel(run: o.RunId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """Cancel every unfinished sim of a run; finished ones keep their state. Repeatable."""
    from . import connect
    from .runs import cancel_run

    connect.run(url, token_file, lambda client: cancel_run(client, run, as_json))


@run_app.command("compare", epilog=o.EXIT_CODES)
def run_compare(run: o.RunId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """Show each kernel's simulated time on every config, and its ratio to the first config."""
    from . import connect
    from .compare import compare_run

    connect.run(url, token_file, lambda client: compare_run(client, run, as_json))


@run_app.command("accuracy", epilog=o.EXIT_CODES)
def run_accuracy(run: o.RunId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """Show how well each config agrees with real hardware, and its worst kernels."""
    from . import connect
    from .compare import accuracy_of_run

    connect.run(url, token_file, lambda client: accuracy_of_run(client, run, as_json))


@run_app.command("export", epilog=o.EXIT_CODES)
def run_export(
    run: o.RunId,
    format: o.Format = o.ExportFormat.CSV,  # noqa: A002 - the option's name
    output: o.Output = None,
    force: o.Force = False,
    url: o.Url = None,
    token_file: o.TokenFile = None,
) -> None:
    """Write a run's results to a file; the file appears whole or not at all."""
    from . import connect
    from .export import export_run

    connect.run(url, token_file, lambda client: export_run(client, run, format, output, force))


@sim_app.command("log", epilog=o.EXIT_CODES)
def sim_log(
    sim: o.SimId,
    follow: o.Follow = False,
    tail: o.Tail = None,
    give_up_after: o.GiveUpAfter = GIVE_UP_AFTER_S,
    url: o.Url = None,
    token_file: o.TokenFile = None,
) -> None:
    """Print a sim's log: byte for byte to a file or pipe, with control characters made visible on a terminal."""
    from . import connect
    from .sims import print_log

    patience = give_up_after if follow else None
    connect.run(url, token_file, lambda client: print_log(client, sim, tail, patience))


@sim_app.command("files", epilog=o.EXIT_CODES)
def sim_files(sim: o.SimId, url: o.Url = None, token_file: o.TokenFile = None, as_json: o.Json = False) -> None:
    """List the files that a sim left."""
    from . import connect
    from .sims import list_files

    connect.run(url, token_file, lambda client: list_files(client, sim, as_json))

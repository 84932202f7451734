"""`cascade run create`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import aiohttp
import typer

from cascade_server.contract import models as m
from cascade_server.contract.client import Unreachable

from . import output as out
from .client import Client, checked_trace_id
from .connect import exit_codes
from .errors import FAILED, SUCCEEDED, USAGE, Stop
from .text import entries_of, harmless, plural
from .watch import watch_run

ASK_ABOVE = 4


def parse_entries(given: Sequence[str]) -> list[m.RunEntry]:
    """Read `CONFIG` or `CONFIG:COUNT`, each; leaves the command when one is neither."""
    with exit_codes():
        return [_entry(text) for text in given]
    raise AssertionError("unreachable")


def _entry(text: str) -> m.RunEntry:
    config, colon, number = text.partition(":")
    valid = number.isascii() and number.isdecimal() and len(number) <= 2 and 1 <= int(number) <= m.MAX_ENTRY_COUNT
    if not config or (colon and not valid):
        raise Stop(
            USAGE,
            f"--on {text!r} is no CONFIG or CONFIG:COUNT with a count from 1 to {m.MAX_ENTRY_COUNT}; "
            "`cascade configs` lists the configs.",
        )
    return m.RunEntry(gpu_config=config, count=int(number) if colon else 1)


def confirm(trace: str, entries: Sequence[m.RunEntry], yes: bool) -> None:
    """Ask before many sims are launched; without a terminal to ask on, refuse."""
    total = sum(entry.count for entry in entries)
    if yes or total <= ASK_ABOVE:
        return
    with exit_codes():
        if not sys.stdin.isatty():
            raise Stop(FAILED, f"Not launched: {total} sims are more than {ASK_ABOVE}; say --yes if you mean it.")
        if not typer.confirm(f"Launch {total} sims of {harmless(trace)}?", err=True):
            raise Stop(FAILED, "Not launched.")


async def create_run(
    client: Client, trace: str, entries: list[m.RunEntry], as_json: bool, watch_for: float | None
) -> int:
    """Launch a run, and watch it where a patience in seconds is given."""
    trace_id = checked_trace_id(trace)
    body = m.RunCreate(trace_id=trace_id, entries=entries or [await _suggested(client, trace_id)])
    try:
        reply = await client.get("create_run", m.RunDetail, body=body.model_dump_json())
    except Unreachable as error:
        if isinstance(error.__cause__, aiohttp.ClientConnectorError):
            raise
        raise Unreachable(
            f"{error}; the run may have been made: look with `cascade runs` before trying again"
        ) from error
    run = reply.value
    if as_json and watch_for is None:
        out.print_json(reply.raw)
        return SUCCEEDED
    if not as_json:
        to = out.console()
        out.line(to, f"Launched {run.id}: {plural(len(run.sims), 'sim')} of {run.trace_id} on {entries_of(run)}.")
        if watch_for is None:
            out.notice(to, run.notice)
            out.line(to, f"Watch with: cascade run watch {run.id}")
    return SUCCEEDED if watch_for is None else await watch_run(client, run.id, as_json, watch_for)


async def _suggested(client: Client, trace_id: str) -> m.RunEntry:
    trace = await client.trace(trace_id)
    if trace.suggested_sim_config:
        return m.RunEntry(gpu_config=trace.suggested_sim_config, count=1)
    fitting = [config.name for config in await client.gpu_configs() if config.arch == trace.trace_gpu_arch]
    which = f"these fit it: {', '.join(fitting)}" if fitting else f"and none is of its arch {trace.trace_gpu_arch}"
    raise Stop(USAGE, f"Trace {trace_id} suggests no config, so --on is needed; {which}.")

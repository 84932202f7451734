"""`cascade sim log` and `sim files`."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable
from contextlib import aclosing

import typer

from cascade_server.contract import models as m
from cascade_server.contract.client import CascadeError
from cascade_server.contract.events import LogEvent, SimEvent, SnapshotEvent
from cascade_server.contract.states import RunState

from . import output as out
from .client import Client, checked_sim_id
from .errors import SUCCEEDED
from .follow import Event, Patience, events
from .output import Column
from .text import harmless, moment, size, visible


async def list_files(client: Client, given: str, as_json: bool) -> int:
    """Print a sim's files."""
    reply = await client.get("sim_files", list[m.SimFile], sim_id=checked_sim_id(given))
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    columns = [Column("file", least=16), Column("size", right=True), Column("type", drop=2), Column("created", drop=1)]
    rows = [[file.name, size(file.size), file.content_type, moment(file.created_at)] for file in reply.value]
    out.table(out.console(), columns, rows, empty="The sim has left no files.")
    return SUCCEEDED


async def print_log(client: Client, given: str, tail: int | None, follow_for: float | None) -> int:
    """Print a log, or its end; go on until the sim has ended where a patience in seconds is given."""
    sim_id = checked_sim_id(given)
    log = LogReader(client, sim_id, writer())
    await log.begin(tail)
    run_id = None if follow_for is None else await _active_run_of(client, sim_id)
    if follow_for is None or run_id is None:
        return SUCCEEDED
    patience = Patience(follow_for, lambda text: typer.echo(f"cascade: {harmless(text)}", err=True))
    async with aclosing(events(client, run_id, patience)) as stream:  # type: ignore[type-var]
        async for event in stream:
            lines, ended = _news(event, sim_id)
            while True:
                try:
                    await log.read_to(lines)
                    patience.connected()
                    break
                except CascadeError as error:
                    await patience.wait(error)
            if ended:
                return SUCCEEDED
    raise AssertionError("unreachable")


async def _active_run_of(client: Client, sim_id: str) -> str | None:
    """The run of a sim that may still print; None when it has ended."""
    for run in await client.runs():
        if run.state is RunState.ACTIVE:
            for sim in (await client.run(run.id)).sims:
                if sim.id == sim_id:
                    return run.id
    return None


def _news(event: Event, sim_id: str) -> tuple[int, bool]:
    """How many lines the sim's log has by an event, and whether it is complete."""
    if isinstance(event, SnapshotEvent):
        sim = next((sim for sim in event.run.sims if sim.id == sim_id), None)
        return (sim.log_lines, sim.state.is_finished) if sim else (0, False)
    if isinstance(event, SimEvent) and event.sim.id == sim_id:
        return event.sim.log_lines, event.sim.state.is_finished
    if isinstance(event, LogEvent) and event.sim_id == sim_id and event.seq is not None:
        return event.seq + len(event.lines), False
    return 0, False


class LogReader:
    """Writes a growing log piece by piece, each byte once, whatever connection is lost in between."""

    def __init__(self, client: Client, sim_id: str, write: Callable[[bytes], None]) -> None:
        self._client = client
        self._sim_id = sim_id
        self._write = write
        self._line = 0
        """Whole lines written, counted from the log's start."""
        self._part = 0
        """Bytes written of the line that follows."""

    async def begin(self, tail: int | None) -> None:
        """Write the log that is there, or its last `tail` lines."""
        async with aclosing(self._client.log_from(self._sim_id, tail)) as chunks:  # type: ignore[type-var]
            async for first, chunk in chunks:
                if not chunk:
                    self._line = first
                self.take(chunk)

    async def read_to(self, lines: int) -> None:
        """Write what is missing up to line `lines`."""
        missing = lines - self._line
        while missing > 0:
            skipped_lines = skipped_bytes = None
            async with aclosing(self._client.log_from(self._sim_id, missing)) as chunks:  # type: ignore[type-var]
                async for first, chunk in chunks:
                    if first > self._line:
                        # The log has grown since: ask for more of its end.
                        missing += first - self._line
                        break
                    if skipped_lines is None or skipped_bytes is None:
                        skipped_lines, skipped_bytes = self._line - first, self._part
                    while skipped_lines and chunk:
                        _, newline, chunk = chunk.partition(b"\n")
                        skipped_lines -= bool(newline)
                    skip = min(skipped_bytes, len(chunk)) if not skipped_lines else 0
                    skipped_bytes -= skip
                    self.take(chunk[skip:])
                else:
                    return

    def take(self, chunk: bytes) -> None:
        """Write the next bytes of the log."""
        if not chunk:
            return
        self._write(chunk)
        ended = chunk.count(b"\n")
        self._line += ended
        self._part = len(chunk) - chunk.rfind(b"\n") - 1 if ended else self._part + len(chunk)


def writer() -> Callable[[bytes], None]:
    """How log bytes get to stdout: as they are, or on a terminal with what it would act on made visible."""
    sys.stdout.flush()
    if not sys.stdout.isatty():
        raw = sys.stdout.buffer

        def as_it_is(chunk: bytes) -> None:
            raw.write(chunk)
            raw.flush()

        return as_it_is
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def shown(chunk: bytes) -> None:
        sys.stdout.write(visible(decoder.decode(chunk)))
        sys.stdout.flush()

    return shown

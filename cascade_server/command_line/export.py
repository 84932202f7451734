"""`cascade run export`: CSV, JSON or a Perfetto timeline, written whole or not at all."""

from __future__ import annotations

import csv
import io
import os
import secrets
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from cascade_server.contract import models as m
from cascade_server.contract.client import Unreachable
from cascade_server.contract.states import RunState

from . import output as out
from .client import Client
from .errors import FAILED, SUCCEEDED, Stop
from .options import ExportFormat
from .text import full_name, plural, size

NAMES = {
    ExportFormat.CSV: "{}-kernels.csv",
    ExportFormat.JSON: "{}-results.json",
    ExportFormat.PERFETTO: "{}-perfetto.json",
}

HEADER = (
    "run_id",
    "trace_id",
    "gpu_config",
    "replica",
    "sim_id",
    "sim_state",
    "stand_in",
    "kernel_index",
    "kernel_name",
    "kernel_name_demangled",
    "kernel_launch_uid",
    "gpu_sim_cycle",
    "gpu_sim_insn",
    "gpu_ipc",
    "sim_time_ns",
    "partial",
    "name_inferred",
)

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet run a cell."""


async def export_run(client: Client, given: str, kind: ExportFormat, output: Path | None, force: bool) -> int:
    """Write the file and say where it is."""
    run_id = await client.run_id(given)
    path = _target(output, NAMES[kind].format(run_id))
    _refuse_existing(path, force)
    run = await client.run(run_id)
    if kind is ExportFormat.CSV:
        kernels = await client.run_kernels(run_id)
        pieces = _once(csv_bytes(run, kernels))
        what = plural(len(kernels), "kernel")
    else:
        pieces = client.run_results(run_id) if kind is ExportFormat.JSON else client.run_perfetto(run_id)
        what = "results" if kind is ExportFormat.JSON else "timeline"
    written = await _write(path, pieces, force, whole_json=kind is not ExportFormat.CSV)
    err = out.console(sys.stderr)
    out.notice(err, run.notice)
    if run.state is RunState.ACTIVE:
        out.line(err, f"{run.id} is not finished: this is what it has so far.")
    out.line(out.console(), f"Wrote {path} ({what}, {size(written)})")
    return SUCCEEDED


def _target(output: Path | None, name: str) -> Path:
    if output is None:
        return Path(name)
    path = output.expanduser()
    return path / name if path.is_dir() else path


def _refuse_existing(path: Path, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise Stop(FAILED, f"{path} is there already; --force overwrites it.")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


# -- CSV -----------------------------------------------------------------------------------


def csv_bytes(run: m.RunDetail, kernels: Iterable[m.KernelStat]) -> bytes:
    """One row for each kernel of each sim, as UTF-8; an empty cell is a missing value."""
    sims = {sim.id: sim for sim in run.sims}
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(HEADER)
    for kernel in kernels:
        sim = sims[kernel.sim_id]
        row = (
            run.id,
            run.trace_id,
            sim.gpu_config,
            sim.replica,
            sim.id,
            str(sim.state),
            _flag(sim.stand_in),
            kernel.kernel_index,
            kernel.kernel_name,
            full_name(kernel.kernel_name),
            kernel.kernel_launch_uid,
            kernel.gpu_sim_cycle,
            kernel.gpu_sim_insn,
            kernel.gpu_ipc,
            kernel.sim_time_ns,
            _flag(kernel.partial),
            _flag(kernel.name_inferred),
        )
        writer.writerow([inert(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue().encode("utf-8", "replace")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def inert(cell: str) -> str:
    """Keep a spreadsheet from running text from outside as a formula."""
    return f"'{cell}" if cell.lstrip(" ").startswith(_FORMULA) else cell


# -- to disk -------------------------------------------------------------------------------


async def _write(path: Path, pieces: AsyncIterator[bytes], force: bool, *, whole_json: bool) -> int:
    """Write beside the target, then put it in place; the bytes written. Leaves nothing behind when it fails."""
    fresh = path.parent / f".{path.name[:200]}.{secrets.token_hex(4)}.part"
    try:
        # "x" with the usual mode: the user's umask decides who may read it.
        with fresh.open("xb") as file:
            written = await _copy(file, pieces, path.name, whole_json=whole_json)
            file.flush()
            os.fsync(file.fileno())
        _put(fresh, path, force)
    except OSError as error:
        raise Stop(FAILED, f"{path} can't be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            fresh.unlink()
    return written


async def _copy(file: BinaryIO, pieces: AsyncIterator[bytes], name: str, *, whole_json: bool) -> int:
    """Copy with a progress bar on a terminal. Raises Unreachable when JSON ends too early."""
    written, end = 0, b""
    columns = (TextColumn("{task.fields[name]}", markup=False), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(
        *columns,
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=out.console(sys.stderr),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        # Streamed: its size is known only at the end.
        task = progress.add_task("", total=None, name=name)
        async with aclosing(pieces) as stream:  # type: ignore[type-var]
            async for piece in stream:
                file.write(piece)
                written += len(piece)
                end = (end + piece)[-16:]
                progress.update(task, completed=written)
    if whole_json and not end.rstrip().endswith(b"}"):
        raise Unreachable("the server's answer ended too early")
    return written


def _put(fresh: Path, path: Path, force: bool) -> None:
    if force:
        fresh.replace(path)
        return
    try:
        # A link never overwrites, even if the file has come in the meantime.
        path.hardlink_to(fresh)
    except FileExistsError:
        raise Stop(FAILED, f"{path} is there already; --force overwrites it.") from None
    except OSError:
        # A file system without links.
        _refuse_existing(path, force)
        fresh.replace(path)

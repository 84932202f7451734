"""`kernel-stats.csv`: a simulator's log as a table, one row a finished kernel, one column a statistic.

The first columns are those of `FIRST`. Behind them comes every other key that occurs in any kernel, in the order in
which the log first shows it; a kernel without it has an empty cell. Units stand in brackets in the header, as the
simulator prints them. Repeated keys are told apart as `block_stats` says (`bw_util`, `bw_util#2`, …).

A text that a spreadsheet would take for a formula gets a `'` in front. What is no number but stands for one (`-nan%`)
is written as `nan`, `inf` or `-inf`, which readers of tables know.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from cascade_server.contract.text import display_text
from cascade_server.simlog.blocks import KernelBlock, PartialMark
from cascade_server.simlog.parser import LogParser

FIRST = (
    "kernel_index",
    "kernel_name",
    "kernel_launch_uid",
    "gpu_sim_cycle",
    "gpu_sim_insn",
    "gpu_ipc",
    "sim_time_ns",
    "cut_short",
)
"""`kernel_index` counts from 0 in the order of completion; `cut_short` is `yes` for a kernel that a limit of the
simulator ended, else empty; `sim_time_ns` is empty when the core clock is not known."""

_UNITS = {
    "gpu_sim_cycle": "cycles",
    "gpu_sim_insn": "thread instructions",
    "gpu_ipc": "instructions/cycle",
    "gpu_tot_sim_cycle": "cycles",
    "gpu_tot_sim_insn": "thread instructions",
    "gpu_tot_ipc": "instructions/cycle",
    "gpgpu_simulation_time": "s",
}
_UNIT = re.compile(r"(%|[KMGT]?B/[Ss](?:ec)?|(?<=\()inst/sec(?=\))|(?<=[0-9])x)\)?\s*$")
_NO_NUMBER = re.compile(r"(-?)(nan|inf)%?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_END = b"\r\n"

Cell = int | float | str | None


def finished_blocks(portions: Iterable[list[str]]) -> Iterator[tuple[KernelBlock, bool]]:
    """The stats blocks of a log, and whether a limit cut each short, which the log says only after the block."""
    parser = LogParser()
    held: KernelBlock | None = None
    cut = False
    for portion in portions:
        for event in parser.feed(portion):
            if isinstance(event, PartialMark):
                cut = cut or (held is not None and held.kernel_index == event.kernel_index)
                continue
            if held is not None:
                yield held, cut
            held, cut = event, event.partial
    if held is not None:
        yield held, cut


def write_csv(portions: Iterable[list[str]], path: Path, core_clock_mhz: float | None = None) -> int:
    """Write the table of a log's lines to `path`, in one pass; returns the number of kernels, and writes nothing for 0.

    Memory: one block, the header, and 16 bytes a kernel. Raises OSError.
    """
    columns = dict.fromkeys(FIRST)
    header = [_titled(name, {}) for name in FIRST]
    lengths, widths = array("Q"), array("Q")
    with tempfile.TemporaryFile(dir=path.parent) as draft:
        for block, cut in finished_blocks(portions):
            stats = block.stats()
            if new := [key for key in stats if key not in columns]:
                columns |= dict.fromkeys(new)
                units = _units(block.lines, new)
                header += [_titled(key, units) for key in new]
            cells = _first_cells(block, stats, cut, core_clock_mhz)
            cells += [stats.get(key) for key in list(columns)[len(FIRST) :]]
            row = _row(cells)
            draft.write(row)
            lengths.append(len(row))
            widths.append(len(columns))
        if lengths:
            draft.seek(0)
            with path.open("wb") as table:
                table.write(_row(header))
                for length, width in zip(lengths, widths, strict=True):
                    # Rows written before a column was known lack its cell.
                    table.write(draft.read(length)[: -len(_END)] + b"," * (len(columns) - width) + _END)
    return len(lengths)


def _first_cells(
    block: KernelBlock, stats: dict[str, int | float | str], cut: bool, core_clock_mhz: float | None
) -> list[Cell]:
    cycles = block.gpu_sim_cycle
    time_ns = None if cycles is None or core_clock_mhz is None else cycles / core_clock_mhz * 1000

    def known(value: Cell, key: str) -> Cell:
        # What the parser does not take for a number, such as the uids of two kernels, is shown as printed.
        return stats.get(key) if value is None else value

    return [
        block.kernel_index,
        block.kernel_name,
        known(block.kernel_launch_uid, "kernel_launch_uid"),
        known(cycles, "gpu_sim_cycle"),
        known(block.gpu_sim_insn, "gpu_sim_insn"),
        known(block.gpu_ipc, "gpu_ipc"),
        time_ns,
        "yes" if cut else None,
    ]


def _row(cells: Iterable[Cell]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow([cell_text(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue().encode()


def cell_text(text: str) -> str:
    """A text as it may stand in a cell: nothing that runs, nothing that UTF-8 lacks."""
    if match := _NO_NUMBER.fullmatch(text):
        return "nan" if match[2] == "nan" else match[1] + "inf"
    shown = _CONTROL.sub("\ufffd", display_text(text))
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _titled(key: str, units: dict[str, str]) -> str:
    base = key.partition("#")[0]
    unit = _UNITS.get(base) or units.get(base)
    return f"{key} ({unit})" if unit else key


def _units(lines: Iterable[str], keys: list[str]) -> dict[str, str]:
    """The units that a block prints behind the values of some keys."""
    wanted = {key.partition("#")[0] for key in keys}
    units: dict[str, str] = {}
    for line in lines:
        head, _, tail = line.partition("=")
        key = head.strip()
        if key in wanted and key not in units and "=" not in tail and (match := _UNIT.search(tail)):
            units[key] = match[1]
    return units

"""`stats_ctx_*` (older: `stats.csv`): names, grids, blocks and instruction counts of a trace's kernels."""

from __future__ import annotations

import re

from cascade_server.contract.models import INT64_MAX, KernelLaunch

_FIRST = re.compile(r"kernel-(\d{1,18})\b.*")
_NUMBERS = 8  # grid x, y, z, blocks, block x, y, z, threads
_COUNTS = 2  # total_insts, total_reported_insts


def parse_stats(text: str) -> list[KernelLaunch]:
    """Read the rows, by kernel id; a row that can't be read is left out, and the first of an id counts. Never raises.

    A row is `kernel-1-ctx_0x….trace.xz, <mangled name>, grid x, y, z, #blocks, block x, y, z, #threads, insts,insts`;
    one of a kernel that was cut short ends after `#threads, `. A name may hold commas, so cells
    are counted from the right.
    """
    found: dict[int, KernelLaunch] = {}
    for line in text.splitlines():
        kernel = _row(line)
        if kernel is not None:
            found.setdefault(kernel.kernel_id, kernel)
    return [found[kernel_id] for kernel_id in sorted(found)]


def _row(line: str) -> KernelLaunch | None:
    cells = [cell.strip() for cell in line.split(",")]
    match = _FIRST.fullmatch(cells[0])
    if match is None:
        return None
    if cells[-1] == "":
        numbers, counts = cells[-1 - _NUMBERS : -1], []
        name = cells[1 : -1 - _NUMBERS]
    else:
        numbers, counts = cells[-_NUMBERS - _COUNTS : -_COUNTS], cells[-_COUNTS:]
        name = cells[1 : -_NUMBERS - _COUNTS]
    if len(numbers) != _NUMBERS or not name or not all(_is_count(cell) for cell in numbers):
        return None
    grid_x, grid_y, grid_z, _, block_x, block_y, block_z, _ = (int(cell) for cell in numbers)
    return KernelLaunch(
        kernel_id=int(match[1]),
        name=",".join(name),
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        instructions=int(counts[0]) if counts and _is_count(counts[0]) else None,
    )


def _is_count(cell: str) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) < 20 and int(cell) <= INT64_MAX

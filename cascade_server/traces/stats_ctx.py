"""`stats_ctx_*` (older: `stats.csv`): names, grids, blocks and instruction counts of a trace's kernels."""

from __future__ import annotations

from collections.abc import Container, Sequence

from cascade_server.contract.models import INT64_MAX, KernelLaunch

from .kernelslist import kernel_id_of

_NUMBERS = 8  # grid x, y, z, blocks, block x, y, z, threads
_MAX_COUNTS = 2  # total_insts, total_reported_insts


def parse_stats(text: str, wanted: Container[int] | None = None) -> list[KernelLaunch]:
    """Read the rows, by kernel id; a row that can't be read is left out, and the first of an id counts. Never raises.

    A row is `kernel-1-ctx_0x….trace.xz, <mangled name>, grid x, y, z, #blocks, block x, y, z, #threads, insts,insts`;
    the one of a kernel that was cut short ends after `#threads, ` and gives no instructions. Instructions are warp
    instructions. `#threads` is a block's in some versions and the grid's in others, so it is not used. Only kernels
    `wanted`, by id, are kept; None keeps all.
    """
    found: dict[int, KernelLaunch] = {}
    for line in text.split("\n"):
        kernel = _row(line, wanted)
        if kernel is not None:
            found.setdefault(kernel.kernel_id, kernel)
    return [found[kernel_id] for kernel_id in sorted(found)]


def _row(line: str, wanted: Container[int] | None) -> KernelLaunch | None:
    kernel_id = kernel_id_of(line.lstrip())
    if kernel_id is None or (wanted is not None and kernel_id not in wanted):
        return None
    raw = line.split(",")
    cells = [cell.strip() for cell in raw]
    while cells[-1] == "":
        cells.pop()
    counts = _counts(cells)
    if counts is None:
        return None
    end = len(cells) - counts
    grid_x, grid_y, grid_z, _, block_x, block_y, block_z, _ = (int(cell) for cell in cells[end - _NUMBERS : end])
    # A lone surrogate can't be sent on.
    name = ",".join(raw[1 : end - _NUMBERS]).strip().encode("utf-8", "replace").decode()
    return KernelLaunch(
        kernel_id=kernel_id,
        name=name,
        grid=(grid_x, grid_y, grid_z),
        block=(block_x, block_y, block_z),
        instructions=int(cells[end]) if counts and _is_count(cells[end]) else None,
    )


def _counts(cells: Sequence[str]) -> int | None:
    """How many cells stand behind `#threads`: 0 (cut short), 1 or 2; None when it is no row.

    With a plain name the number of cells tells. A name with commas in it (not a mangled one, yet nothing forbids it)
    moves the cells, so then the grid must multiply up to `#blocks`.
    """
    plain = len(cells) - 2 - _NUMBERS
    if 0 <= plain <= _MAX_COUNTS and _numbers(cells, plain) is not None:
        return plain
    for counts in range(_MAX_COUNTS, -1, -1):
        numbers = _numbers(cells, counts)
        if numbers is not None and numbers[0] * numbers[1] * numbers[2] == numbers[3]:
            return counts
    return None


def _numbers(cells: Sequence[str], counts: int) -> list[int] | None:
    end = len(cells) - counts
    if end < 2 + _NUMBERS:
        return None
    numbers = cells[end - _NUMBERS : end]
    return [int(cell) for cell in numbers] if all(_is_count(cell) for cell in numbers) else None


def _is_count(cell: str) -> bool:
    return cell.isascii() and cell.isdecimal() and len(cell) < 20 and int(cell) <= INT64_MAX

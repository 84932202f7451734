"""`kernelslist.g`: the commands that the simulator works through, in order, and whether the disk has what they name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_KERNEL = re.compile(r"kernel-([0-9]{1,18})(?![0-9A-Za-z])")
_CONTEXT = re.compile(r"-(ctx_0x[0-9a-fA-F]+)")
_MEMCPY = re.compile(r"MemcpyHtoD,(0x)?[0-9a-fA-F]{1,16},[0-9]{1,19}")
_SUFFIXES = (".xz", ".gz", ".zst")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A line that names a kernel file; `kernel_id` is the N of kernel-N, None where the name has none.

    Ids may skip (only some kernels traced); the simulator's own uids count 1, 2, 3 in list order instead.
    """

    file: str
    kernel_id: int | None
    line_no: int

    @property
    def context(self) -> str | None:
        """`ctx_0x55d0` of `kernel-1-ctx_0x55d0.traceg`, as in the name of its statistics file."""
        found = _CONTEXT.search(self.file)
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class KernelsList:
    """What a list says; lines are given as they stand, without the white space at their ends.

    `memcpys` counts the MemcpyHtoD lines; those of them that aren't `MemcpyHtoD,<address>,<bytes>` stand in `broken`.
    `ignored` are lines that are neither a copy nor a kernel: the simulator skips them too. `unsafe` are kernel names
    that are not plain: the simulator hands names to a shell, so such a list must never run.
    """

    kernels: tuple[ListedKernel, ...]
    memcpys: int
    ignored: tuple[str, ...]
    unsafe: tuple[str, ...]
    broken: tuple[str, ...] = ()


def kernel_id_of(file: str) -> int | None:
    """The N of `kernel-N.traceg`, `kernel-N-ctx_0x….trace.xz` and the like; None for any other name."""
    found = _KERNEL.match(file)
    return int(found[1]) if found else None


def parse_kernelslist(text: str) -> KernelsList:
    """Read a list; never raises. Lines may end in CR LF.

    What counts as a copy or a kernel is told by the beginning of the line alone, as in Accel-Sim's trace parser.
    """
    kernels: list[ListedKernel] = []
    ignored: list[str] = []
    broken: list[str] = []
    memcpys = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip(" \t\r")
        if line.startswith("MemcpyHtoD"):
            memcpys += 1
            if not _MEMCPY.fullmatch(line):
                broken.append(line)
        elif line.startswith("kernel"):
            kernels.append(ListedKernel(line, kernel_id_of(line), number))
        elif line:
            ignored.append(line)
    unsafe = tuple(kernel.file for kernel in kernels if not _PLAIN.fullmatch(kernel.file))
    return KernelsList(tuple(kernels), memcpys, tuple(ignored), unsafe, tuple(broken))


def list_problem(listed: KernelsList, sizes: Mapping[str, int], outside: Collection[str] = ()) -> str | None:
    """One sentence why the list can't be simulated, None when names and sizes are right.

    `sizes` are the files beside the list, in bytes; `outside` the links there that are not followed.
    """
    if listed.unsafe:
        return (
            f"kernelslist.g names {listed.unsafe[0][:80]!r}: a kernel file's name may hold only letters, digits, dot, "
            "underscore and hyphen, since the simulator hands it to a shell."
        )
    if listed.broken:
        return f"kernelslist.g has a line that is not `MemcpyHtoD,<address>,<bytes>`: {listed.broken[0][:80]!r}."
    if not listed.kernels:
        return "kernelslist.g names no kernel, so there is nothing to simulate."
    files = dict.fromkeys(kernel.file for kernel in listed.kernels)
    bad = [problem for file in files if (problem := _file_problem(file, sizes, outside))]
    if not bad:
        return None
    more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f"kernelslist.g and the files beside it don't fit: {'; '.join(bad[:_SHOWN])}{more}."


def _file_problem(file: str, sizes: Mapping[str, int], outside: Collection[str]) -> str | None:
    if file in outside:
        return f"{file} is a link that leads out of the folder of traces"
    size = sizes.get(file)
    if size == 0:
        return f"{file} is empty"
    if size is not None:
        return None
    stem = next((file.removesuffix(end) for end in _SUFFIXES if file.endswith(end)), file)
    other = next((name for end in ("", *_SUFFIXES) if (name := stem + end) in sizes), None)
    # Compressing kernels by hand leaves the old names in the list.
    return f"{file} is missing" + (f" (but {other} is there: write that name in the list)" if other else "")

"""`kernelslist.g`: the commands that the simulator works through, in order, and whether the disk has what they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_KERNEL = re.compile(r"kernel-([0-9]{1,18})(?![0-9A-Za-z])")
_CONTEXT = re.compile(r"-(ctx_0x[0-9a-fA-F]+)")
_MEMCPY = re.compile(r"MemcpyHtoD,(0x)?[0-9a-fA-F]{1,16},[0-9]{1,19}")
_SUFFIXES = (".xz", ".gz", ".zst")
_SHOWN = 3
_SHOWN_CHARS = 80

MAX_KERNELS = 250_000
"""Kernels in a list; of more the rest is not kept, and the list is refused."""

MAX_IGNORED = 20
"""Kinds of ignored lines that are told apart."""


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
    """What a list says.

    `memcpys` counts the MemcpyHtoD lines; `broken` are the line numbers of those that aren't
    `MemcpyHtoD,<address>,<bytes>`. `ignored` tells what other lines begin with, each kind once (`cudaMalloc`): the
    simulator skips them too. `unsafe` are kernels whose names are not plain: the simulator hands names to a shell, so
    such a list must never run. `ends_in_memcpy`: simulators of before 2024 abort on that. `too_many`: there are more
    than MAX_KERNELS.
    """

    kernels: tuple[ListedKernel, ...]
    memcpys: int
    ignored: tuple[str, ...] = ()
    unsafe: tuple[ListedKernel, ...] = ()
    broken: tuple[int, ...] = ()
    ends_in_memcpy: bool = False
    too_many: bool = False


def kernel_id_of(file: str) -> int | None:
    """The N of `kernel-N.traceg`, `kernel-N-ctx_0x….trace.xz` and the like; None for any other name."""
    found = _KERNEL.match(file)
    return int(found[1]) if found else None


def parse_kernelslist(text: str) -> KernelsList:
    """Read a list; never raises. Lines may end in CR LF.

    What counts as a copy or a kernel is told by the beginning of the line alone, as in Accel-Sim's trace parser.
    """
    kernels: list[ListedKernel] = []
    ignored: dict[str, None] = {}
    broken: list[int] = []
    memcpys = 0
    ends_in_memcpy = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.rstrip(" \t\r")
        if line.startswith("MemcpyHtoD"):
            memcpys += 1
            ends_in_memcpy = True
            if not _MEMCPY.fullmatch(line):
                broken.append(number)
        elif line.startswith("kernel"):
            ends_in_memcpy = False
            kernels.append(ListedKernel(line, kernel_id_of(line), number))
            if len(kernels) > MAX_KERNELS:
                break
        elif line and len(ignored) < MAX_IGNORED:
            ignored.setdefault(line.partition(",")[0][:_SHOWN_CHARS])
    return KernelsList(
        kernels=tuple(kernels[:MAX_KERNELS]),
        memcpys=memcpys,
        ignored=tuple(ignored),
        unsafe=tuple(kernel for kernel in kernels if not _PLAIN.fullmatch(kernel.file)),
        broken=tuple(broken),
        ends_in_memcpy=ends_in_memcpy,
        too_many=len(kernels) > MAX_KERNELS,
    )


def list_problem(listed: KernelsList, sizes: Mapping[str, int]) -> str | None:
    """One sentence why the list can't be simulated, None when names and sizes are right.

    `sizes` are the files beside the list, in bytes. Of the list only plain names are quoted: it may be a link to a
    file that nobody should see.
    """
    if listed.unsafe:
        kernel = listed.unsafe[0]
        character = _PLAIN.sub("", kernel.file)[0]
        return (
            f"Line {kernel.line_no} of kernelslist.g names a kernel file with {character!r} in it: only letters, "
            "digits, dot, underscore and hyphen are allowed, since the simulator hands the name to a shell."
        )
    if listed.broken:
        return f"Line {listed.broken[0]} of kernelslist.g is not `MemcpyHtoD,<address>,<bytes>`."
    if listed.too_many:
        return f"kernelslist.g names more than {MAX_KERNELS:,} kernels."
    if not listed.kernels:
        return "kernelslist.g names no kernel, so there is nothing to simulate."
    files = dict.fromkeys(kernel.file for kernel in listed.kernels)
    bad = [problem for file in files if (problem := _file_problem(file, sizes))]
    if not bad:
        return None
    more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    return f"kernelslist.g and the files beside it don't fit: {'; '.join(bad[:_SHOWN])}{more}."


def _file_problem(file: str, sizes: Mapping[str, int]) -> str | None:
    size = sizes.get(file)
    shown = file if len(file) <= _SHOWN_CHARS else file[:_SHOWN_CHARS] + "…"
    if size == 0:
        return f"{shown} is empty"
    if size is not None:
        return None
    stem = next((file.removesuffix(end) for end in _SUFFIXES if file.endswith(end)), file)
    other = next((name for end in ("", *_SUFFIXES) if (name := stem + end) in sizes), None)
    # Compressing kernels by hand leaves the old names in the list.
    return f"{shown} is missing" + (f" (but {other} is there: write that name in the list)" if other else "")

"""`kernelslist.g`: the commands that the simulator works through, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_KERNEL = re.compile(r"kernel-(\d+)\b.*")


@dataclass(frozen=True, slots=True)
class ListedKernel:
    """A line that names a kernel file; `kernel_id` is the N of kernel-N, None where the name has none."""

    file: str
    kernel_id: int | None
    line_no: int


@dataclass(frozen=True, slots=True)
class KernelsList:
    """What a list says. `ignored` are lines that are neither kernels nor MemcpyHtoD; the simulator skips them too.

    `unsafe` are kernel names that are not plain: the simulator hands names to a shell, so such a list must never run.
    """

    kernels: tuple[ListedKernel, ...]
    memcpys: int
    ignored: tuple[str, ...]
    unsafe: tuple[str, ...]


def parse_kernelslist(text: str) -> KernelsList:
    """Read a list; never raises. Line ends may be CRLF."""
    kernels: list[ListedKernel] = []
    ignored: list[str] = []
    unsafe: list[str] = []
    memcpys = 0
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line:
            continue
        if line.startswith("MemcpyHtoD,"):
            memcpys += 1
        # The simulator takes whatever begins with "kernel" for a kernel.
        elif line.startswith("kernel"):
            match = _KERNEL.fullmatch(line)
            digits = match[1] if match else ""
            kernels.append(ListedKernel(line, int(digits) if 0 < len(digits) < 19 else None, number))
            if not _PLAIN.fullmatch(line):
                unsafe.append(line)
        else:
            ignored.append(line)
    return KernelsList(tuple(kernels), memcpys, tuple(ignored), tuple(unsafe))

"""The files a sim leaves for those who look at its run: which, under what names, and as what bytes.

- `simulator.log.gz`: all that the simulator printed, to the byte, and nothing of the worker's own.
- `kernel-stats.csv`: see `kernel_stats`.
- every regular file in the simulator's run directory: text as `.gz`, unless its name says that it is compressed.

Left out: links (the trace's and the config's files are links), the folder `traces`, and empty files. A file in a folder
below gets a name in which `_` stands for `/`; whatever else the contract does not allow in a name becomes `_` too.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import stat
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from .delivery import Delivery

log = logging.getLogger(__name__)

LOG_FILE = "simulator.log.gz"
STATS_FILE = "kernel-stats.csv"
MAX_FILES = 500
"""Of a run directory; a simulator that writes a file for every thread block must not flood the server."""

READ_BYTES = 256 << 10
MAX_NAME_CHARS = 128
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_SUFFIX = 16
_LOOKED_AT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Output:
    """A file of a run directory; `place` is its path below that."""

    path: Path
    place: str


class DiskContent:
    """The first `size` bytes of an open file; `packed`: gzipped, without a name or time, so always the same bytes."""

    def __init__(self, fd: int, size: int, *, packed: bool) -> None:
        self.error: OSError | None = None
        self.taken = 0
        self._fd = fd
        self._size = size
        self._packed = packed

    async def stream(self) -> AsyncIterator[bytes]:
        """All of it, a piece at a time."""
        packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS) if self._packed else None
        at = 0
        while at < self._size:
            read, data = await asyncio.to_thread(self._piece, at, packer)
            if not read:
                break  # it has shrunk
            at += read
            self.taken += read
            if data:
                yield data
        if packer is not None:
            yield packer.flush()

    def _piece(self, at: int, packer: zlib._Compress | None) -> tuple[int, bytes]:
        try:
            data = os.pread(self._fd, min(READ_BYTES, self._size - at), at)
        except OSError as error:
            self.error = error
            raise
        return len(data), packer.compress(data) if packer is not None else data


async def upload_log(delivery: Delivery, path: Path, size: int) -> None:
    """Send the first `size` bytes of the log. Raises as Delivery does."""
    if size:
        with _opened(path) as (fd, _):
            await delivery.put(LOG_FILE, DiskContent(fd, size, packed=True))


async def upload_stats(delivery: Delivery, path: Path) -> None:
    """Send a table that `kernel_stats` wrote."""
    with _opened(path) as (fd, size):
        await delivery.put(STATS_FILE, DiskContent(fd, size, packed=False))


async def upload_run(delivery: Delivery, run: Path) -> None:
    """Send what the simulator left in its run directory; nothing when there is none."""
    found = find_outputs(run)
    if len(found) > MAX_FILES:
        log.warning("%d of %d files in %s are left out", len(found) - MAX_FILES, len(found), run)
    taken = {LOG_FILE, STATS_FILE}
    for output in found[:MAX_FILES]:
        try:
            with _opened(output.path) as (fd, size):
                packed = not output.path.name.lower().endswith(_COMPRESSED) and _is_text(fd)
                name = file_name(output.place, ".gz" if packed else "", taken)
                taken.add(name)
                await delivery.put(name, DiskContent(fd, size, packed=packed))
        except OSError as error:
            log.warning("the file %r is left out: %s", output.place, error.strerror)


def find_outputs(run: Path) -> list[Output]:
    """The files to send, by place."""
    found = []
    for folder, folders, names in os.walk(run):
        if folder == str(run):
            folders[:] = [name for name in folders if name != "traces"]
        for name in names:
            path = Path(folder) / name
            with contextlib.suppress(OSError):
                info = path.lstat()
                if stat.S_ISREG(info.st_mode) and info.st_size:
                    found.append(Output(path, path.relative_to(run).as_posix()))
    return sorted(found, key=lambda output: output.place)


def file_name(place: str, ending: str, taken: set[str]) -> str:
    """A name as the contract wants it, none of `taken`: `checkpoint_files/x.txt` gives `checkpoint_files_x.txt`."""
    plain = _NOT_PLAIN.sub("_", place)
    if not plain.strip("."):
        plain = "_" * max(1, len(plain))
    suffix = Path(plain).suffix
    stem = plain.removesuffix(suffix)
    if len(suffix) > _LONGEST_SUFFIX:
        stem, suffix = plain, ""
    number = 1
    while True:
        tail = (f"-{number}" if number > 1 else "") + suffix + ending
        name = stem[: MAX_NAME_CHARS - len(tail)] + tail
        if name not in taken:
            return name
        number += 1


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """The descriptor and size of a regular file; links are not followed, and pipes not waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        yield fd, info.st_size
    finally:
        os.close(fd)


def _is_text(fd: int) -> bool:
    return b"\0" not in os.pread(fd, _LOOKED_AT_BYTES, 0)

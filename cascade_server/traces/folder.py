"""A trace's folder as it lies on disk: names and sizes, and reading small files of it.

Links are followed, since users link large traces to where they lie. Nothing here ever waits for a pipe or a device:
only regular files are listed, and a file that was swapped for something else meanwhile is not read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

LIST_FOLDER = "traces/"


@dataclass(frozen=True, slots=True)
class Folder:
    """Regular files in a folder and in its `traces`, by path below the folder (`traces/kernel-1.traceg`).

    `sizes` in bytes; `fingerprint` changes with any name, size or mtime.
    """

    path: Path
    sizes: dict[str, int]
    fingerprint: str

    def beside(self, place: str) -> dict[str, int]:
        """`sizes` of the folder that the file `place` lies in, by bare name."""
        prefix = place[: place.rfind("/") + 1]
        start = len(prefix)
        return {
            name[start:]: size
            for name, size in self.sizes.items()
            if name.startswith(prefix) and "/" not in name[start:]
        }

    def read(self, name: str, limit: int) -> bytes:
        """Up to `limit` bytes from the start of a file. Raises OSError."""
        return read_file(self.path / name, limit)

    def read_own(self, name: str, limit: int) -> bytes | None:
        """Like `read`; None for a link to outside both this folder and the folder of traces around it."""
        real = os.path.realpath(self.path / name)
        homes = (os.path.realpath(self.path), os.path.realpath(self.path.parent))
        if not any(real.startswith(home.rstrip("/") + "/") for home in homes):
            return None
        return read_file(Path(real), limit, follow=False)


def read_file(path: Path, limit: int, *, follow: bool = True) -> bytes:
    """Up to `limit` bytes from the start of a regular file. Raises OSError, at once for pipes and devices.

    With `follow` false also for a link.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        parts: list[bytes] = []
        while limit > 0 and (part := os.read(handle, min(limit, 1 << 20))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def list_folder(path: Path) -> Folder:
    """Look at a folder. Only stats; nothing is opened.

    Files that vanish meanwhile are left out. Raises OSError when the folder, or a `traces` in it, can't be read.
    """
    seen: list[tuple[str, int, int]] = []
    for prefix in ("", LIST_FOLDER):
        try:
            entries = os.scandir(path / prefix)
        except (FileNotFoundError, NotADirectoryError):
            if not prefix:
                raise
            break
        with entries:
            for entry in entries:
                try:
                    info = entry.stat()
                except OSError:
                    continue  # vanished, or a link to nowhere
                if stat.S_ISREG(info.st_mode):
                    seen.append((prefix + entry.name, info.st_size, info.st_mtime_ns))
    seen.sort()
    parts = [f"{name}\0{size}\0{mtime}\0" for name, size, mtime in seen]
    fingerprint = hashlib.blake2b(os.fsencode("".join(parts)), digest_size=16).hexdigest()
    return Folder(path, {name: size for name, size, _ in seen}, fingerprint)

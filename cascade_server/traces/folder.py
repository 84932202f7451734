"""A trace's folder as it lies on disk: names and sizes, and reading small files of it.

Nothing outside the folder of traces can be reached through a trace: a link that leads out of it counts as not there,
so that a trace put there by somebody else can't show the server's own files.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

LIST_FOLDER = "traces/"


@dataclass(frozen=True, slots=True)
class Folder:
    """Regular files in a folder and in its `traces`, by path below the folder (`traces/kernel-1.traceg`).

    `sizes` in bytes; `outside` are links that are not followed; `fingerprint` changes with any name, size or mtime.
    """

    path: Path
    root: str
    sizes: dict[str, int]
    outside: frozenset[str]
    fingerprint: str

    def beside(self, place: str) -> tuple[dict[str, int], set[str]]:
        """`sizes` and `outside` of the folder that the file `place` lies in, by bare name."""
        prefix = place[: place.rfind("/") + 1]
        start = len(prefix)

        def is_beside(name: str) -> bool:
            return name.startswith(prefix) and "/" not in name[start:]

        sizes = {name[start:]: size for name, size in self.sizes.items() if is_beside(name)}
        return sizes, {name[start:] for name in self.outside if is_beside(name)}

    def read(self, name: str, limit: int) -> bytes:
        """Up to `limit` bytes from the start of a file; b"" for a link that leads out. Raises OSError."""
        path = os.path.realpath(self.path / name)
        if not _is_inside(path, self.root):
            return b""
        # The file may have been swapped since it was listed: never wait for a pipe, never follow a new link.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else b""


def list_folder(path: Path, root: str) -> Folder:
    """Look at a folder below `root`, whose path must be resolved. Only stats; nothing is opened.

    Files that vanish meanwhile are left out. Raises OSError when the folder, or a `traces` in it, can't be read.
    """
    seen: list[tuple[str, int, int]] = []
    outside: set[str] = set()
    for prefix in ("", LIST_FOLDER):
        if prefix.rstrip("/") in outside:
            break
        try:
            entries = os.scandir(path / prefix)
        except (FileNotFoundError, NotADirectoryError):
            if not prefix:
                raise
            break
        with entries:
            for entry in entries:
                _add(entry, prefix + entry.name, root, seen, outside)
    seen.sort()
    parts = [f"{name}\0{size}\0{mtime}\0" for name, size, mtime in seen]
    parts.extend(f"{name}\0>\0" for name in sorted(outside))
    fingerprint = hashlib.blake2b(os.fsencode("".join(parts)), digest_size=16).hexdigest()
    return Folder(path, root, {name: size for name, size, _ in seen}, frozenset(outside), fingerprint)


def is_inside(path: Path, root: str) -> bool:
    """Tell whether a path, links resolved, lies in the resolved folder `root`."""
    return _is_inside(os.path.realpath(path), root)


def _is_inside(real: str, root: str) -> bool:
    return real.startswith(root if root.endswith("/") else root + "/")


def _add(entry: os.DirEntry[str], name: str, root: str, seen: list[tuple[str, int, int]], outside: set[str]) -> None:
    try:
        if entry.is_symlink() and not _is_inside(os.path.realpath(entry.path), root):
            outside.add(name)
            return
        info = entry.stat()
    except OSError:
        return  # vanished, or a link to nowhere
    if stat.S_ISREG(info.st_mode):
        seen.append((name, info.st_size, info.st_mtime_ns))

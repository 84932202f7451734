"""Bytes to lines, in chunks of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from cascade_server.contract.text import line_from_bytes

MAX_LINE_BYTES = 4 << 20
READ_BYTES = 256 << 10


class Interrupted(Exception):
    """Reading was told to stop."""


class LineSplitter:
    r"""Cuts a stream of bytes at line feeds, and at nothing else: `\r` and NUL are part of a line.

    With a `limit`, only the first `limit` bytes of a line are kept: a line without an end can't fill the memory.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; returns the lines they complete, without line feeds."""
        head, feed, rest = data.partition(b"\n")
        self._hold(head)
        if not feed:
            return []
        first = self.rest()
        *lines, last = rest.split(b"\n")
        self._hold(last)
        if self._limit is not None:
            lines = [line[: self._limit] for line in lines]
        return [first, *lines]

    def rest(self) -> bytes:
        """Hand out what came after the last line feed, and forget it."""
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        return rest

    def _hold(self, part: bytes) -> None:
        if self._limit is not None:
            part = part[: self._limit - self._held]
        if part:
            self._parts.append(part)
            self._held += len(part)


def file_lines(path: Path, size: int, stopped: Callable[[], bool] = lambda: False) -> Iterator[list[str]]:
    """The lines in the first `size` bytes of a log on disk, portion by portion, as they travel to the server.

    Raises Interrupted between two portions once `stopped` says so, OSError.
    """
    splitter = LineSplitter(MAX_LINE_BYTES)
    with path.open("rb") as file:
        while data := file.read(min(READ_BYTES, size)):
            if stopped():
                raise Interrupted
            size -= len(data)
            yield [line_from_bytes(line) for line in splitter.feed(data)]
    if rest := splitter.rest():
        yield [line_from_bytes(rest)]

"""The raw log on disk: everything the simulator printed, in order, and the queue of what is still to be sent."""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 256 << 10
CHUNK_LINES = 4000
MAX_LINE_BYTES = 4 << 20
_INDEX_EVERY_BYTES = 4 << 20


class SpoolError(Exception):
    """The log can't be written; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines without line feeds; `end` is the offset in bytes behind them."""

    seq: int
    lines: list[bytes]
    end: int
    unterminated: bool = False


class Spool:
    """A log file that grows at its end and is read from any line on.

    A line of up to `max_line` bytes is one line of a chunk; a longer one becomes several of `max_line` bytes each.
    Lines are numbered from 0 by this rule alone, so a number always means the same bytes. Memory: one chunk, and a
    few bytes for every 4 MiB of log.
    """

    def __init__(
        self,
        path: Path,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        chunk_lines: int = CHUNK_LINES,
        max_line: int = MAX_LINE_BYTES,
    ) -> None:
        """Create the file. Raises FileExistsError if it is there, OSError if it can't be made."""
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._chunk_bytes = chunk_bytes
        self._chunk_lines = chunk_lines
        self._max_line = max_line
        self._index: list[tuple[int, int]] = [(0, 0)]
        self.size = 0
        self.closed = False
        """Nothing more will be written."""

    def write(self, data: bytes) -> None:
        """Append; raises SpoolError with a sentence when the disk is full or gone."""
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            what = "The disk under {} is full." if full else f"The log under {{}} can't be written: {error.strerror}."
            raise SpoolError(what.format(self.path.parent)) from error

    def write_line(self, line: bytes) -> None:
        """Append a line of the worker's own, on a line of its own; raises SpoolError."""
        ended = self.size == 0 or self._pread(self.size - 1, 1) == b"\n"
        self.write((b"" if ended else b"\n") + line + b"\n")

    def read(self, seq: int, offset: int) -> Chunk | None:
        """The next whole lines, from line `seq` at byte `offset` on; None when there are none yet.

        The last line without a line feed comes alone in a chunk, and only after `closed`.
        """
        data = self._pread(offset, self._chunk_bytes)
        if b"\n" not in data and len(data) == self._chunk_bytes:
            data = self._pread(offset, self._max_line + 1)
        lines = data.split(b"\n", self._chunk_lines)
        rest = lines.pop()
        if lines:
            return self._indexed(Chunk(seq, lines, offset + sum(map(len, lines)) + len(lines)))
        if len(rest) > self._max_line:
            return self._indexed(Chunk(seq, [rest[: self._max_line]], offset + self._max_line))
        if rest and self.closed and offset + len(rest) == self.size:
            return Chunk(seq, [rest], offset + len(rest), unterminated=True)
        return None

    def find(self, seq: int) -> int | None:
        """The offset of line `seq`; None when fewer lines have been read or written."""
        line, offset = self._index[bisect_right(self._index, (seq, self.size + 1)) - 1]
        while line < seq:
            chunk = self.read(line, offset)
            if chunk is None:
                return None
            if line + len(chunk.lines) > seq:
                return offset + sum(len(raw) + 1 for raw in chunk.lines[: seq - line])
            line, offset = line + len(chunk.lines), chunk.end
        return offset

    def close(self) -> None:
        """Release the file; it stays on disk."""
        os.close(self._fd)

    def _pread(self, offset: int, size: int) -> bytes:
        return os.pread(self._fd, min(size, self.size - offset), offset)

    def _indexed(self, chunk: Chunk) -> Chunk:
        if chunk.end - self._index[-1][1] >= _INDEX_EVERY_BYTES:
            self._index.append((chunk.seq + len(chunk.lines), chunk.end))
        return chunk

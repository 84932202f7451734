"""The part of a sim's log that the terminal app holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

MAX_LINES = 20_000
MAX_CHARS = 2_000_000
MAX_LINE = 8_192
"""A longer line is cut: the server has the whole of it."""


class LogBuffer:
    """A window of a log, by line number: `lines[i]` is line `first + i` (0-based).

    Chunks may come twice, overlapping, late or with others missing between: what is held is always one unbroken
    piece of the true log. `behind` tells that lines before `first`, or up to `seen`, could be fetched.
    """

    def __init__(self, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS) -> None:
        self.first = 0
        self.seen = 0
        """Lines known to exist, whether held or not."""
        self.gaps = 0
        """How often lines were missing before a chunk."""
        self._max_lines = max_lines
        self._max_chars = max_chars
        self._lines: deque[str] = deque()
        self._chars = 0

    @property
    def end(self) -> int:
        """The number of the line after the last one held."""
        return self.first + len(self._lines)

    @property
    def behind(self) -> bool:
        """Whether lines are known to exist after the last one held."""
        return self.end < self.seen

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> str:
        return self._lines[index]

    def slice(self, start: int, stop: int) -> list[str]:
        """Lines by their numbers, clipped to what is held."""
        return list(islice(self._lines, max(0, start - self.first), max(0, stop - self.first)))

    def reset(self) -> None:
        """Forget everything: the log is another one."""
        self._lines.clear()
        self._chars = 0
        self.first = self.seen = self.gaps = 0

    def merge(self, first: int, lines: Sequence[str]) -> bool:
        """Take a chunk whose first line is number `first`; tell whether anything changed.

        A chunk behind a hole replaces what is held (the newest matters most) and counts as a gap; one that lies
        before it, with a hole between, is of no use.
        """
        end = first + len(lines)
        self.seen = max(self.seen, end)
        if not lines or (first >= self.first and end <= self.end):
            return False
        if not self._lines or first > self.end:
            self.gaps += bool(self._lines)
            self._lines.clear()
            self._chars = 0
            self.first = first
            self._append(lines)
            return True
        if end < self.first:
            return False
        if first < self.first:
            self._prepend(lines[: self.first - first])
        if end > self.end:
            self._append(lines[max(0, self.end - first) :])
        return True

    def _append(self, lines: Sequence[str]) -> None:
        new = _cut(lines)
        self._lines.extend(new)
        self._chars += sum(map(len, new))
        while len(self._lines) > 1 and (len(self._lines) > self._max_lines or self._chars > self._max_chars):
            self._chars -= len(self._lines.popleft())
            self.first += 1

    def _prepend(self, lines: Sequence[str]) -> None:
        room = self._max_lines - len(self._lines)
        new = _cut(lines[-room:]) if room > 0 else []
        new.reverse()
        chars = sum(map(len, new))
        while new and self._chars + chars > self._max_chars:
            chars -= len(new.pop())
        self._lines.extendleft(new)
        self._chars += chars
        self.first -= len(new)


def _cut(lines: Sequence[str]) -> list[str]:
    return [line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…" for line in lines]

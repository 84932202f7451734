"""Server-sent events on the wire: an encoder and an incremental decoder, without I/O.

Format: the WHATWG HTML standard, section "Server-sent events".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

KEEPALIVE = b": keepalive\n\n"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event; `id` is the last id seen on the stream, "" when there was none."""

    data: str
    event: str = "message"
    id: str = ""


def encode(data: str, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - the field's name
    r"""Encode one event.

    Raises ValueError when `event` or `id` hold a line break or NUL, which would end the field early.
    """
    out = []
    for name, value in (("event", event), ("id", id)):
        if value is None:
            continue
        if any(c in value for c in "\r\n\0"):
            raise ValueError(f"an SSE {name} can't hold line breaks or NUL")
        out.append(f"{name}: {value}\n")
    # str.splitlines() would also split at U+2028 and others, which are no line ends here.
    out.extend(f"data: {line}\n" for line in data.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return ("".join(out) + "\n").encode("utf-8", "replace")


class Decoder:
    """Turns chunks of bytes, cut anywhere, into events.

    Lines may be of any length: a snapshot is one line of megabytes. A comment (keepalive) yields nothing.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._skip_lf = False
        self._start = True
        self._data: list[str] = []
        self._event = ""
        self._id = ""

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Give the events that `chunk` completes."""
        for line in self._lines(chunk):
            event = self._line(line)
            if event is not None:
                yield event

    def _lines(self, chunk: bytes) -> Iterator[str]:
        if not chunk:
            return
        if self._skip_lf:
            chunk = chunk.removeprefix(b"\n")
        # A CR at the end may be half of a CRLF: the LF that follows must not count as an empty line.
        self._skip_lf = chunk.endswith(b"\r")
        *whole, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for part in whole:
            self._pending.append(part)
            line = b"".join(self._pending).decode("utf-8", "replace")
            self._pending.clear()
            if self._start:
                self._start = False
                line = line.removeprefix("\ufeff")
            yield line
        if rest:
            self._pending.append(rest)

    def _line(self, line: str) -> ServerSentEvent | None:
        if not line:
            data, self._data = self._data, []
            event, self._event = self._event, ""
            return ServerSentEvent("\n".join(data), event or "message", self._id) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        return None

"""What feeds a worker: something that prints bytes and ends with an exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Sink = Callable[[bytes], None]
"""Takes the next bytes as they were printed, cut anywhere. What it raises ends the source."""


class SourceError(Exception):
    """A source can't start or go on; the message is a sentence."""


class Source(Protocol):
    """Either the simulator or a replay of one."""

    async def run(self, sink: Sink) -> int:
        """Print into `sink` until the end; returns the exit code (128 + n after signal n). Raises SourceError.

        Cancelled, it stops whatever it started before it ends.
        """

"""Hands a run's events to those who watch it.

A publisher never waits. Each subscriber has its own bounded queue: sim events keep only the newest of a sim, log
events of a sim are joined and lose their oldest lines when they pile up (`seq` shows the gap), kernel events are
kept; when even those pile up the queue is dropped whole and the subscriber must send a fresh snapshot.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from cascade_server.contract import sse
from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent

MAX_KERNELS = 2000
MAX_LOG_LINES = 5000

Event = SnapshotEvent | SimEvent | LogEvent | KernelEvent


class Signal(Enum):
    """What a subscriber may find instead of an event."""

    SNAPSHOT = auto()
    """Too much was missed: send a fresh snapshot."""
    CLOSED = auto()
    """The server stops: end the stream."""


class Published:
    """An event that is encoded at most once, however many watch."""

    __slots__ = ("_wire", "event")

    def __init__(self, event: Event) -> None:
        self.event = event
        self._wire: bytes | None = None

    @property
    def wire(self) -> bytes:
        """The event as sent on the stream."""
        if self._wire is None:
            self._wire = sse.encode(self.event.model_dump_json())
        return self._wire


class Subscriber:
    """One watcher's queue."""

    def __init__(self) -> None:
        self._queue: deque[Published] = deque()
        self._sims: dict[str, int] = {}
        self._logs: dict[str, Published] = {}
        self._kernels = 0
        self._taken = 0
        self._signal: Signal | None = None
        self._wake = asyncio.Event()

    def put(self, item: Published) -> None:
        """Queue an event by the rules above."""
        if self._signal is not None:
            return
        event = item.event
        if isinstance(event, SimEvent):
            at = self._sims.get(event.sim.id)
            if at is not None:
                self._queue[at - self._taken] = item
            else:
                self._sims[event.sim.id] = self._taken + len(self._queue)
                self._queue.append(item)
        elif isinstance(event, LogEvent) and (pending := self._logs.get(event.sim_id)) is not None:
            _extend(pending, event)
        else:
            if isinstance(event, LogEvent):
                # Its own copy: lines will be added to it.
                item = Published(event.model_copy(update={"lines": list(event.lines)}))
                self._logs[event.sim_id] = item
            self._kernels += isinstance(event, KernelEvent)
            if self._kernels > MAX_KERNELS:
                self.signal(Signal.SNAPSHOT)
                return
            self._queue.append(item)
        self._wake.set()

    def signal(self, signal: Signal) -> None:
        """Drop the queue and leave a signal; CLOSED stays for good."""
        if self._signal is not Signal.CLOSED:
            self._signal = signal
        self._clear()
        self._wake.set()

    async def get(self) -> Published | Signal:
        """Wait for the next event or signal."""
        while True:
            if self._signal is not None:
                signal = self._signal
                if signal is Signal.SNAPSHOT:
                    self._signal = None
                return signal
            if self._queue:
                return self._take()
            self._wake.clear()
            await self._wake.wait()

    def _take(self) -> Published:
        item = self._queue.popleft()
        self._taken += 1
        event = item.event
        if isinstance(event, SimEvent):
            del self._sims[event.sim.id]
        elif isinstance(event, LogEvent):
            del self._logs[event.sim_id]
        elif isinstance(event, KernelEvent):
            self._kernels -= 1
        return item

    def _clear(self) -> None:
        self._queue.clear()
        self._sims.clear()
        self._logs.clear()
        self._kernels = 0


def _extend(pending: Published, event: LogEvent) -> None:
    old = pending.event
    assert isinstance(old, LogEvent)
    lines = old.lines
    if old.seq is not None and event.seq is not None and event.seq != old.seq + len(lines):
        # Not the next lines: keep the newer part, the client sees the gap.
        lines.clear()
        old.seq = event.seq
    lines.extend(event.lines)
    excess = len(lines) - MAX_LOG_LINES
    if excess > 0:
        del lines[:excess]
        if old.seq is not None:
            old.seq += excess


class Bus:
    """All subscribers by run."""

    def __init__(self) -> None:
        self._topics: defaultdict[str, set[Subscriber]] = defaultdict(set)
        self._closed = False

    @contextmanager
    def subscribe(self, run_id: str) -> Iterator[Subscriber]:
        """Watch a run for as long as the context lasts."""
        subscriber = Subscriber()
        if self._closed:
            subscriber.signal(Signal.CLOSED)
        self._topics[run_id].add(subscriber)
        try:
            yield subscriber
        finally:
            watchers = self._topics[run_id]
            watchers.discard(subscriber)
            if not watchers:
                del self._topics[run_id]

    def watched(self, run_id: str) -> bool:
        """Whether anyone would get an event of this run."""
        return run_id in self._topics

    def publish(self, run_id: str, event: Event) -> None:
        """Queue an event for every watcher of a run; never waits."""
        watchers = self._topics.get(run_id)
        if watchers:
            item = Published(event)
            for subscriber in watchers:
                subscriber.put(item)

    def close(self) -> None:
        """End every stream, those opened later too."""
        self._closed = True
        for watchers in self._topics.values():
            for subscriber in watchers:
                subscriber.signal(Signal.CLOSED)

"""Hands events to those who watch a run, or the whole server.

A publisher never waits. Each subscriber has its own bounded queue: of a sim, a run or a trace only the newest state
is kept; log events of a sim are joined and lose their oldest lines when they pile up (`seq` shows the gap); kernel
events are kept. When even those pile up the queue is dropped whole and the subscriber must send a fresh snapshot.

Every event of a topic has an id `<epoch>-<number>`. The epoch is the server process's own, so that an id from before a
restart is never mistaken for one of now. A watched topic keeps its last events for clients that come back; an event
may reach such a client twice, never not at all, and every event may be taken twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import NamedTuple

from cascade_server.contract import sse
from cascade_server.contract.events import (
    KernelEvent,
    LogEvent,
    RunChangedEvent,
    ServerSnapshotEvent,
    SimEvent,
    SnapshotEvent,
    TraceChangedEvent,
    TraceGoneEvent,
)

MAX_KERNELS = 2000
MAX_LOG_LINES = 5000
KEPT_EVENTS = 500
KEPT_LINES = 20_000
"""What a topic keeps for clients that come back, in events and log lines; beyond that they get a snapshot."""

MAX_IDLE = 8
"""Topics that nobody watches are kept so many, the last ones, for clients that were cut off."""

SERVER_TOPIC = ""
"""The topic of the whole server's runs and traces; runs' topics are their ids."""

Event = (
    SnapshotEvent
    | SimEvent
    | LogEvent
    | KernelEvent
    | ServerSnapshotEvent
    | RunChangedEvent
    | TraceChangedEvent
    | TraceGoneEvent
)


class Signal(Enum):
    """What a subscriber may find instead of an event."""

    SNAPSHOT = auto()
    """Too much was missed: send a fresh snapshot."""
    CLOSED = auto()
    """The server stops: end the stream."""


class Published:
    """An event that is encoded at most once, however many watch."""

    __slots__ = ("_body", "event")

    def __init__(self, event: Event) -> None:
        self.event = event
        self._body: bytes | None = None

    def wire(self, event_id: str) -> bytes:
        """The event as sent on a stream, with its id."""
        if self._body is None:
            self._body = sse.encode(self.event.model_dump_json())
        return f"id: {event_id}\n".encode() + self._body


class Numbered(NamedTuple):
    """An event with its number in its topic."""

    number: int
    item: Published


class Subscriber:
    """One watcher's queue."""

    def __init__(self) -> None:
        # An event that was replaced by a newer one leaves a None, so that places stay where they are.
        self._queue: deque[Numbered | None] = deque()
        self._newest: dict[tuple[str, str], int] = {}
        self._logs: dict[str, Published] = {}
        self._kernels = 0
        self._taken = 0
        self._signal: Signal | None = None
        self._wake = asyncio.Event()

    def put(self, number: int, item: Published) -> None:
        """Queue an event by the rules above.

        A newer state takes the place at the end, not that of the older one: a sim's end must not overtake its last
        kernels. Log lines are joined to those that wait and go out under that event's number: a client that comes back
        with it gets what followed once more, which is harmless, where the other way round it would miss something.
        """
        if self._signal is not None:
            return
        event = item.event
        key = _newest_key(event)
        if key is not None and (at := self._newest.get(key)) is not None:
            self._queue[at - self._taken] = None
        if isinstance(event, LogEvent) and (pending := self._logs.get(event.sim_id)) is not None:
            _extend(pending, event)
        else:
            self._append(number, item, key)
        self._wake.set()

    def _append(self, number: int, item: Published, key: tuple[str, str] | None) -> None:
        event = item.event
        if key is not None:
            self._newest[key] = self._taken + len(self._queue)
        elif isinstance(event, LogEvent):
            # Its own copy: lines will be added to it.
            item = Published(event.model_copy(update={"lines": list(event.lines)}))
            self._logs[event.sim_id] = item
        elif isinstance(event, KernelEvent):
            self._kernels += 1
            if self._kernels > MAX_KERNELS:
                self.signal(Signal.SNAPSHOT)
                return
        self._queue.append(Numbered(number, item))

    def signal(self, signal: Signal) -> None:
        """Drop the queue and leave a signal; CLOSED stays for good."""
        if self._signal is not Signal.CLOSED:
            self._signal = signal
        self._queue.clear()
        self._newest.clear()
        self._logs.clear()
        self._kernels = 0
        self._wake.set()

    async def get(self) -> Numbered | Signal:
        """Wait for the next event or signal."""
        while True:
            if self._signal is not None:
                signal = self._signal
                if signal is Signal.SNAPSHOT:
                    self._signal = None
                return signal
            while self._queue:
                if (taken := self._take()) is not None:
                    return taken
            self._wake.clear()
            await self._wake.wait()

    def _take(self) -> Numbered | None:
        taken = self._queue.popleft()
        self._taken += 1
        if taken is None:
            return None
        event = taken.item.event
        key = _newest_key(event)
        if key is not None:
            del self._newest[key]
        elif isinstance(event, LogEvent):
            del self._logs[event.sim_id]
        elif isinstance(event, KernelEvent):
            self._kernels -= 1
        return taken


def _newest_key(event: Event) -> tuple[str, str] | None:
    """What this event is the newest state of; None for events that stand for themselves."""
    match event:
        case SimEvent():
            return "sim", event.sim.id
        case RunChangedEvent():
            return "run", event.run.id
        case TraceChangedEvent():
            return "trace", event.trace.id
        case TraceGoneEvent():
            return "trace", event.trace_id
        case _:
            return None


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


class _Topic:
    """What is published about one run, or about the server."""

    def __init__(self, number: int) -> None:
        self.subscribers: set[Subscriber] = set()
        self.number = number
        self._kept: deque[Numbered] = deque()
        self._lines = 0

    def publish(self, item: Published) -> None:
        self.number += 1
        self._kept.append(Numbered(self.number, item))
        self._lines += _weight(item)
        while len(self._kept) > KEPT_EVENTS or self._lines > KEPT_LINES:
            self._lines -= _weight(self._kept.popleft().item)
        for subscriber in self.subscribers:
            subscriber.put(self.number, item)

    def since(self, number: int) -> list[Numbered] | None:
        """All events after a number; None when some are no longer kept."""
        first = self._kept[0].number if self._kept else self.number + 1
        if not first - 1 <= number <= self.number:
            return None
        return [kept for kept in self._kept if kept.number > number]


def _weight(item: Published) -> int:
    match item.event:
        case LogEvent(lines=lines):
            return len(lines)
        case KernelEvent(stat=stat):
            return len(stat.stats)
        case _:
            return 1


class Subscription(NamedTuple):
    """A subscriber's place: whether it goes on where the client was, and the number it begins at."""

    subscriber: Subscriber
    resumed: bool
    number: int


class Bus:
    """All topics that are, or lately were, watched."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._idle: deque[str] = deque()
        self._closed = False
        # Topics made again begin beyond all numbers ever given, so that no id means two events.
        self._unused = 0
        self._epoch = secrets.token_hex(4)

    @contextmanager
    def subscribe(self, name: str, last_event_id: str | None = None) -> Iterator[Subscription]:
        """Watch a topic for as long as the context lasts.

        With the id of an event that is still kept, or the newest, what came after it is queued and `resumed` is true;
        else the client must be sent a snapshot first.
        """
        topic = self._topics.setdefault(name, _Topic(self._unused))
        subscriber = Subscriber()
        missed = self._missed(topic, last_event_id)
        for kept in missed or ():
            subscriber.put(*kept)
        if self._closed:
            subscriber.signal(Signal.CLOSED)
        topic.subscribers.add(subscriber)
        try:
            yield Subscription(subscriber, missed is not None, topic.number)
        finally:
            topic.subscribers.discard(subscriber)
            if not topic.subscribers:
                self._retire(name)

    def event_id(self, number: int) -> str:
        """The id of an event."""
        return f"{self._epoch}-{number}"

    def number(self, name: str) -> int:
        """The number of a topic's newest event."""
        topic = self._topics.get(name)
        return topic.number if topic else 0

    def watched(self, name: str) -> bool:
        """Whether events of this topic should be published: someone watches, or may come back."""
        return name in self._topics

    def publish(self, name: str, event: Event) -> None:
        """Queue an event for every watcher of a topic; never waits."""
        topic = self._topics.get(name)
        if topic is not None:
            topic.publish(Published(event))

    def close(self) -> None:
        """End every stream, those opened later too."""
        self._closed = True
        for topic in self._topics.values():
            for subscriber in topic.subscribers:
                subscriber.signal(Signal.CLOSED)

    def _missed(self, topic: _Topic, last_event_id: str | None) -> list[Numbered] | None:
        epoch, _, number = (last_event_id or "").rpartition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdecimal() and len(number) < 19):
            return None
        return topic.since(int(number))

    def _retire(self, name: str) -> None:
        """Keep a few topics that nobody watches, so that a client that was cut off finds its place."""
        if name in self._idle:
            self._idle.remove(name)
        self._idle.append(name)
        while len(self._idle) > MAX_IDLE:
            old = self._idle.popleft()
            topic = self._topics.get(old)
            if topic is not None and not topic.subscribers:
                self._unused = max(self._unused, topic.number + 1)
                del self._topics[old]

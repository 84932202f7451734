"""Keeps the store like the server: polls the lists, follows one run's events, tells how the link is.

Runs in workers that live on the app, so that no screen's end cuts it off. It writes to the store and posts
messages; it never touches a widget.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from textual.message import Message

from cascade_server.contract.client import ApiError, CascadeClient, CascadeError, NotFound, Unauthorized
from cascade_server.contract.models import RunCreate, RunDetail

from .messages import ConnectionChanged, StoreChanged
from .store import Changed, Store

LOG_LINES = 5_000
"""Lines fetched of a log when a sim is chosen."""

OFFLINE_AFTER = 4
"""Failed tries after which `reconnecting` becomes `offline`; the tries go on."""


class Link(Enum):
    """How the server is reached."""

    CONNECTING = "connecting"
    LIVE = "live"
    RECONNECTING = "reconnecting"
    OFFLINE = "offline"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Connection:
    """The state of the link; `next_try` is a time of the sync's clock, `error` one sentence."""

    link: Link = Link.CONNECTING
    next_try: float | None = None
    error: str = ""

    @property
    def stale(self) -> bool:
        """Whether what is shown may be out of date."""
        return self.link not in (Link.LIVE, Link.CONNECTING)


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds: between polls, and the back-off's first and longest wait."""

    poll_s: float = 2.0
    base_s: float = 0.5
    cap_s: float = 15.0

    def backoff(self, attempt: int, chance: float) -> float:
        """Wait before try `attempt` (from 1), with full jitter: `chance` in 0..1 of the longest wait."""
        return max(0.1 * self.base_s, chance * min(self.cap_s, self.base_s * 2.0 ** min(attempt, 32)))


class Host(Protocol):
    """What the sync needs of the app."""

    def post_message(self, message: Message) -> bool:
        """Queue a message."""
        ...

    def start(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run work in a worker of its own, ending the one that ran in `group`."""
        ...


class Sync:
    """The link between a server and a store."""

    def __init__(
        self,
        client: CascadeClient,
        store: Store,
        host: Host,
        *,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.connection = Connection()
        self._client = client
        self._store = store
        self._host = host
        self._pace = pace or Pace()
        self._clock = clock
        self._chance = chance
        self._channels: dict[str, Connection] = {"lists": Connection()}
        self._poll_now = asyncio.Event()
        self._server_back = asyncio.Event()
        self._trace_id: str | None = None
        self._run_id: str | None = None
        self._sim_id: str | None = None
        self._gaps: dict[str, int] = {}

    def seconds_to_next_try(self) -> float | None:
        """Seconds until the link is tried again, None when no try is planned."""
        next_try = self.connection.next_try
        return None if next_try is None else max(0.0, next_try - self._clock())

    # -- what screens ask for ----------------------------------------------------------------

    def start(self) -> None:
        """Begin to poll; to be called once."""
        self._host.start(self._poll_for_ever(), "sync-lists")

    def show_trace(self, trace_id: str) -> None:
        """Fetch a trace's detail, now and whenever it changes."""
        self._trace_id = trace_id
        if self._store.needs_detail(trace_id):
            self.poll()

    def poll(self) -> None:
        """Ask for the lists at once, unless the server is away."""
        if not self.connection.stale:
            self._poll_now.set()

    def watch(self, run_id: str) -> None:
        """Follow a run's events instead of any other's."""
        if run_id != self._run_id:
            self._run_id = run_id
            self._sim_id = None
            self._host.start(self._follow(run_id), "sync-run")

    def unwatch(self, run_id: str) -> None:
        """Follow no run, if it is still this one that is followed."""
        if run_id == self._run_id:
            self._run_id = self._sim_id = None
            self._host.start(self._forget_run(), "sync-run")

    def show_log(self, run_id: str, sim_id: str) -> None:
        """Fetch the end of a sim's log; later gaps in it are filled as they show."""
        if run_id == self._run_id and sim_id != self._sim_id:
            self._sim_id = sim_id
            self._host.start(self._fetch_log(run_id, sim_id), "sync-log")

    async def launch(self, body: RunCreate) -> RunDetail:
        """Create a run. Raises CascadeError."""
        run = await self._client.create_run(body)
        self._store.run(run.id).merge_detail(run)
        self.poll()
        return run

    async def cancel(self, run_id: str) -> None:
        """Cancel a run. Raises CascadeError."""
        detail = await self._client.cancel_run(run_id)
        if self._store.run(run_id).merge_detail(detail):
            self._host.post_message(StoreChanged())
        self.poll()

    # -- lists -------------------------------------------------------------------------------

    async def _poll_for_ever(self) -> None:
        attempt = 0
        while True:
            try:
                await self._poll()
            except CascadeError as error:
                attempt += 1
                delay = self._failed("lists", error, attempt)
            else:
                attempt, delay = 0, self._pace.poll_s
                was_away = self._channels["lists"].stale
                self._set("lists", Connection(Link.LIVE))
                if was_away:
                    self._server_back.set()
            self._poll_now.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._poll_now.wait(), delay)

    async def _poll(self) -> None:
        store, client = self._store, self._client
        if store.health is None or self._channels["lists"].stale:
            store.health = await client.health()
        if store.configs is None:
            store.configs = await client.gpu_configs()
        changed = store.set_lists(await client.traces(), await client.runs())
        wanted = self._trace_id
        if wanted is not None and store.needs_detail(wanted):
            # A trace may go between the list and the question.
            with suppress(NotFound):
                changed |= store.set_detail(await client.trace(wanted))
        if changed:
            self._host.post_message(StoreChanged())

    # -- one run -----------------------------------------------------------------------------

    async def _follow(self, run_id: str) -> None:
        attempt = 0
        self._set("run", Connection())
        while True:
            self._server_back.clear()
            try:
                async for event in self._client.run_events(run_id):
                    attempt = 0
                    self._set("run", Connection(Link.LIVE))
                    self._take(run_id, self._store.run(run_id).apply(event))
            except NotFound as error:
                # The link is fine; the run may be back when the server has its data again.
                self._set("run", Connection(Link.LIVE))
                self._store.run(run_id).missing = str(error)
                self._host.post_message(StoreChanged())
                delay = self._pace.cap_s
            except CascadeError as error:
                attempt += 1
                delay = self._failed("run", error, attempt)
                self._poll_now.set()
            else:
                delay = self._pace.base_s
            with suppress(TimeoutError):
                await asyncio.wait_for(self._server_back.wait(), delay)

    async def _forget_run(self) -> None:
        self._channels.pop("run", None)
        self._combine()

    def _take(self, run_id: str, changed: set[Changed]) -> None:
        if not changed:
            return
        self._host.post_message(StoreChanged())
        sim_id = self._sim_id
        if sim_id is not None and Changed.LOGS in changed:
            gaps = self._store.run(run_id).log(sim_id).gaps
            if gaps != self._gaps.get(sim_id, 0):
                self._gaps[sim_id] = gaps
                self._host.start(self._fetch_log(run_id, sim_id), "sync-log")

    async def _fetch_log(self, run_id: str, sim_id: str) -> None:
        # What the stream brings is shown meanwhile, and a failure here shows in the link anyway.
        with suppress(CascadeError):
            tail = await self._client.sim_log_tail(sim_id, LOG_LINES)
            if self._store.run(run_id).log(sim_id).merge(tail.first_line, tail.lines):
                self._host.post_message(StoreChanged())

    # -- the link ----------------------------------------------------------------------------

    def _failed(self, channel: str, error: CascadeError, attempt: int) -> float:
        delay = self._pace.backoff(attempt, self._chance())
        if isinstance(error, Unauthorized):
            link = Link.REFUSED
        elif isinstance(error, ApiError) or attempt <= OFFLINE_AFTER:
            link = Link.RECONNECTING
        else:
            link = Link.OFFLINE
        self._set(channel, Connection(link, self._clock() + delay, str(error)))
        return delay

    def _set(self, channel: str, connection: Connection) -> None:
        if self._channels.get(channel) != connection:
            self._channels[channel] = connection
            self._combine()

    def _combine(self) -> None:
        """Show the worst of the channels; of two that are down the one tried first."""
        order = (Link.REFUSED, Link.OFFLINE, Link.RECONNECTING, Link.CONNECTING, Link.LIVE)
        channels = [c for name, c in self._channels.items() if name == "lists" or c.link is not Link.CONNECTING]
        worst = min(channels, key=lambda c: (order.index(c.link), c.next_try or 0.0))
        if worst != self.connection:
            self.connection = worst
            self._host.post_message(ConnectionChanged())

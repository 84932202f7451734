"""A real server inside the test's own loop, with a clock and ids that the test holds."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer
from pydantic import SecretStr

from cascade_server.app import make_app
from cascade_server.contract.client import CascadeClient
from cascade_server.contract.models import Heartbeat, RunCreate, RunDetail, RunEntry, SimSummary
from cascade_server.contract.states import SimState
from cascade_server.keys import CORE
from cascade_server.services.core import Core
from cascade_server.settings import Settings
from tests.recordings import recording_lines

TOKEN = "main-token-of-the-tests"


@dataclass
class Clock:
    """Time that passes only when told to."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    seconds: float = 0.0

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.seconds += seconds


@dataclass
class Ids:
    """`run-000000000001`, `sim-000000000002`, …"""

    _next: Any = field(default_factory=lambda: itertools.count(1))

    def __call__(self, prefix: str) -> str:
        return f"{prefix}{next(self._next):012x}"


@dataclass
class Running:
    """A server that runs, with a client that has the main token."""

    url: str
    client: CascadeClient
    core: Core
    clock: Clock

    def sim_client(self, sim_id: str, attempt: int = 1) -> CascadeClient:
        """A client with the sim's own token; enter it."""
        return CascadeClient(self.url, self.core.tokens.sims.make(sim_id, attempt))

    async def create(self, *configs: str, trace: str = "demo-sm70", count: int = 1) -> RunDetail:
        entries = [RunEntry(gpu_config=config, count=count) for config in configs or ("SM7_QV100",)]
        return await self.client.create_run(RunCreate(trace_id=trace, entries=entries))

    async def feed(self, sim: SimSummary, lines: list[str], *, chunk: int = 4000) -> None:
        """Send lines as a worker would."""
        await self.client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
        for at in range(0, len(lines), chunk):
            await self.client.post_logs(sim.id, at, lines[at : at + chunk])

    async def finish(self, sim: SimSummary, recording: str) -> None:
        """Send a whole recording and success."""
        await self.feed(sim, recording_lines(recording))
        await self.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))


def make_settings(data_dir: Path, **values: Any) -> Settings:
    """Settings of a test: nothing from the environment matters."""
    given: dict[str, Any] = {"data_dir": data_dir, "token": SecretStr(TOKEN), "launcher": "none", "samples": True}
    return Settings(**(given | values))


@asynccontextmanager
async def running_server(data_dir: Path, *, clock: Clock | None = None, **values: Any) -> AsyncIterator[Running]:
    """Start a server on a data folder; workers are played by the test unless a launcher is named."""
    clock = clock or Clock()
    app = make_app(make_settings(data_dir, **values), now=clock.wall, monotonic=clock.monotonic, new_id=Ids())
    server = TestServer(app)
    await server.start_server()
    try:
        url = str(server.make_url("/")).rstrip("/")
        async with CascadeClient(url, TOKEN) as client:
            yield Running(url, client, app[CORE], clock)
    finally:
        await server.close()

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.command_line.commands import timed_trace
from tests.servers import Running, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    timed_trace(tmp_path / "data")
    async with running_server(tmp_path / "data") as running:
        # The sample run is made in the background: what a test makes is newer.
        while not await running.client.runs():
            pass
        running.clock.advance(1)
        yield running

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
        yield running

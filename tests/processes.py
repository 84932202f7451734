"""A real `cascade serve` as a process of its own, as a user starts it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from cascade_server.contract.client import CascadeClient
from tests.servers import TOKEN

START_S = 20.0


def environment(data_dir: Path, **settings: str) -> dict[str, str]:
    """The process's environment: ours without any setting of Cascade, and the given ones."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("CASCADE_")}
    mine |= {"CASCADE_DATA_DIR": str(data_dir), "CASCADE_TOKEN": TOKEN, "CASCADE_PORT": "0"}
    return mine | {"CASCADE_" + name.upper(): value for name, value in settings.items()}


@dataclass
class ServerProcess:
    """A server that can be killed and started again on the same data."""

    data_dir: Path
    settings: dict[str, str]
    url: str = ""
    lines: list[str] = field(default_factory=list)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start and wait for the line with the URL."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "cascade_server",
            "serve",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=environment(self.data_dir, **self.settings),
        )
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            line = (await self.process.stdout.readline()).decode()
        assert line.startswith("Cascade serves on http://"), line
        self.lines.append(line)
        self.url = line.split()[-1]
        # Workers know the address they were started with.
        self.settings["port"] = self.url.rpartition(":")[2]

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(10):
            rest, _ = await self.process.communicate()
        assert rest == b""
        assert self.process.returncode is not None
        return self.process.returncode

    def client(self) -> CascadeClient:
        """A client with the main token; enter it."""
        return CascadeClient(self.url, TOKEN)


def worker_processes(data_dir: Path) -> list[psutil.Process]:
    """All workers whose sims lie in a data folder, and what they started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("CASCADE_WORK_DIR", "").startswith(str(data_dir)):
                found.append(process)
        except psutil.Error:
            continue
    return found


@asynccontextmanager
async def server_process(data_dir: Path, **settings: str) -> AsyncIterator[ServerProcess]:
    """A started server; at the end it and every worker of it is gone."""
    server = ServerProcess(data_dir, dict(settings))
    await server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.returncode is None:
            await server.stop(signal.SIGKILL)
        for process in worker_processes(data_dir):
            process.kill()

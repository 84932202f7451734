"""Calls `cascade` as a person or script does: in a thread beside the test's server, or as a process."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import cascade_server
from cascade_server.cli import app
from cascade_server.contract.models import RunDetail, SimSummary
from tests.recordings import INDEX
from tests.servers import TOKEN, Running

CASCADE = [sys.executable, "-m", "cascade_server"]

REAL_NS = 5000.0


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def variables(url: str | None, **more: str) -> dict[str, str]:
    found = {"CASCADE_TOKEN": TOKEN, **more}
    return found | ({"CASCADE_URL": url} if url else {})


async def cascade(url: str | None, *words: str, answer: str | None = None, **env: str) -> Done:
    """Run a command in this process; `env` wins over what is set for it."""
    given = {"COLUMNS": "200", **variables(url), **env}

    def call() -> Done:
        result = CliRunner().invoke(app, words, input=answer, env=given, catch_exceptions=False)
        return Done(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    return await asyncio.to_thread(call)


def process_environment(url: str, **env: str) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("CASCADE_")}
    return mine | variables(url) | env


async def shell(url: str, command: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which `cascade` is the command."""
    script = f'set -o pipefail; cascade() {{ {" ".join(CASCADE)} "$@"; }}; {command}'
    return await asyncio.to_thread(
        subprocess.run,
        ["/bin/bash", "-c", script],
        env=process_environment(url, **env),
        capture_output=True,
        timeout=40,
        check=False,
    )


def timed_trace(data_dir: Path, trace_id: str = "timed", times: Sequence[float] = (REAL_NS,) * 12) -> None:
    """Put a copy of the demo trace with real timing into a data folder."""
    folder = data_dir / "traces" / trace_id
    shutil.copytree(Path(cascade_server.__file__).parent / "samples" / "traces" / "demo-sm70", folder)
    rows = [{"kernel_id": at + 1, "name": f"real_{at}[x]", "duration_ns": ns} for at, ns in enumerate(times)]
    (folder / "real_timing.json").write_text(json.dumps({"kernels": rows}))


async def finished(server: Running, *recordings: str, trace: str = "demo-sm70") -> RunDetail:
    """A run whose sims have all succeeded, each with a recording."""
    run = await server.create(*(INDEX[name].gpu_config for name in recordings), trace=trace)
    for recording in recordings:
        await server.finish(sim_on(run, INDEX[recording].gpu_config), recording)
    return await server.client.run(run.id)


def sim_on(run: RunDetail, config: str) -> SimSummary:
    return next(sim for sim in run.sims if sim.gpu_config == config)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, url: str, *words: str, columns: int = 80, lines: int = 24) -> None:
        self.out = b""
        self._fd, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [*CASCADE, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=process_environment(url, COLUMNS=str(columns), LINES=str(lines), TERM="xterm-256color"),
            start_new_session=True,
        )
        os.close(theirs)

    async def until(self, pattern: bytes) -> None:
        async with asyncio.timeout(30):
            while not re.search(pattern, self.out):
                assert await self._read(), self.out

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    async def ended(self) -> int:
        async with asyncio.timeout(30):
            while await self._read():
                pass
            code = await asyncio.to_thread(self._process.wait)
        os.close(self._fd)
        return code

    async def _read(self) -> bool:
        try:
            piece = await asyncio.to_thread(os.read, self._fd, 65536)
        except OSError:
            # How Linux says that the other side has closed.
            return False
        self.out += piece
        return bool(piece)

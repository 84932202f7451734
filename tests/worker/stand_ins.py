"""A small real HTTP server that takes logs and heartbeats as the contract says, and a fake Accel-Sim checkout."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from aiohttp import web

from cascade_server.contract.text import line_to_bytes
from tests.recordings import CASES

SIM_ID = "sim-0123456789ab"
TOKEN = "token-of-this-sim"


class Fault(Enum):
    """What can go wrong with one request."""

    NONE = auto()
    DROP = auto()
    """The connection breaks before the server did anything."""
    LOSE_REPLY = auto()
    """The server did it, but its answer is lost."""
    BUSY = auto()
    BUSY_AFTER = auto()
    """A proxy answers 503 though the server did it."""
    FORGET = auto()
    """The server comes back without the lines of its last chunk."""
    REFUSE = auto()
    """The server does not want it (heartbeats only; a log chunk is taken)."""


@dataclass
class FakeServer:
    """Keeps one sim's log; `faults` are used up one a log request, `verdict` is the final heartbeat."""

    url: str = ""
    lines: list[bytes] = field(default_factory=list)
    unterminated: bool = False
    beats: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    cancel: bool = False
    over: bool = False
    chunks: list[int] = field(default_factory=list)
    beat_faults: list[Fault] = field(default_factory=list)
    on_log: Callable[[], None] = lambda: None
    hang: asyncio.Event | None = None
    """Log requests wait for it."""
    stop: Callable[[], Awaitable[None]] | None = None
    """Stop listening and drop all connections."""

    @property
    def log(self) -> bytes:
        """The log as it was printed."""
        return b"\n".join(self.lines) + (b"" if self.unterminated or not self.lines else b"\n")

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The last heartbeat that ended the sim."""
        return next((beat for beat in self.beats if beat["state"] != "running"), None)

    async def post_logs(self, request: web.Request) -> web.StreamResponse:
        """POST …/logs."""
        body = await request.json(loads=json.loads)
        if self.hang is not None:
            await self.hang.wait()
        if refusal := self._refuse(request):
            return refusal
        fault = self.faults.pop(0) if self.faults else Fault.NONE
        if fault is Fault.FORGET and self.chunks:
            del self.lines[self.chunks.pop() :]
            self.unterminated = False
        if fault is Fault.DROP:
            return _cut(request)
        if fault is Fault.BUSY:
            return _answer(503, detail="busy")
        if body["seq"] > len(self.lines):
            return _answer(409, detail="gap", next_seq=len(self.lines))
        fresh = body["lines"][len(self.lines) - body["seq"] :]
        if fresh:
            self.chunks.append(len(self.lines))
            self.lines += map(line_to_bytes, fresh)
            self.unterminated = body.get("unterminated", False)
        self.on_log()
        if fault is Fault.LOSE_REPLY:
            return _cut(request)
        if fault is Fault.BUSY_AFTER:
            return _answer(503, detail="busy")
        return _answer(200, next_seq=len(self.lines))

    async def heartbeat(self, request: web.Request) -> web.StreamResponse:
        """POST …/heartbeat; the token of an ended sim is void."""
        beat = await request.json()
        fault = self.beat_faults.pop(0) if self.beat_faults else Fault.NONE
        if fault is Fault.DROP:
            return _cut(request)
        if fault is Fault.BUSY:
            return _answer(503, detail="busy")
        if fault is Fault.REFUSE:
            return _answer(422, detail="no")
        if refusal := self._refuse(request):
            return refusal
        self.beats.append(beat)
        self.over = self.over or beat["state"] != "running"
        return _cut(request) if fault is Fault.LOSE_REPLY else _answer(200, cancel=self.cancel)

    def _refuse(self, request: web.Request) -> web.StreamResponse | None:
        if request.match_info["sim_id"] != SIM_ID:
            return _answer(404, detail=f"There is no sim {request.match_info['sim_id']!r}.")
        if self.over or request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _answer(401, detail="The token is not valid.")
        return None


@asynccontextmanager
async def fake_server(port: int = 0, state: FakeServer | None = None) -> AsyncIterator[FakeServer]:
    """A server on loopback; give `state` and its port to start one again."""
    server = state or FakeServer()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/api/sims/{sim_id}/logs", server.post_logs)
    app.router.add_post("/api/sims/{sim_id}/heartbeat", server.heartbeat)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    server.stop = runner.cleanup
    try:
        yield server
    finally:
        await runner.cleanup()


def _answer(status: int, **body: Any) -> web.Response:
    return web.json_response(body, status=status)


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def fake_accelsim(root: Path, gpu_config: str = "SM7_QV100") -> Path:
    """A checkout whose simulator is `fakesim.py`, driven by the variable FAKESIM."""
    simulator = root / "gpu-simulator"
    binary = simulator / "bin" / "release" / "accel-sim.out"
    binary.parent.mkdir(parents=True)
    # exec, so that the process is the one the worker started, as the real one is.
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} {CASES}/fakesim.py "$@"\n')
    binary.chmod(0o755)
    gpgpusim = simulator / "gpgpu-sim" / "configs" / "tested-cfgs" / gpu_config
    gpgpusim.mkdir(parents=True)
    (gpgpusim / "gpgpusim.config").write_text(
        "-gpgpu_n_clusters 80\n-inter_config_file more/named.icnt\n#-accelwattch_xml_file gone.xml\n"
    )
    (gpgpusim / "config_volta_islip.icnt").write_text("")
    (gpgpusim / "accelwattch_sass_sim.xml").write_text("")
    (gpgpusim / "more").mkdir()
    (gpgpusim / "more" / "named.icnt").write_text("")
    trace_config = simulator / "configs" / "tested-cfgs" / gpu_config
    trace_config.mkdir(parents=True)
    (trace_config / "trace.config").write_text("")
    library = simulator / "gpgpu-sim" / "lib" / "gcc-12" / "cuda-11000" / "release"
    library.mkdir(parents=True)
    (library / "libcudart.so").write_text("")
    return root


def make_trace(root: Path, *lines: str, kernels: int = 3) -> Path:
    """A trace folder with a kernel list of `lines`, else of so many kernels, and files for all that are plain."""
    folder = root / "traces"
    folder.mkdir(parents=True)
    listed = lines or ("MemcpyHtoD,0x00007f4000000000,64", *(f"kernel-{n}.traceg" for n in range(1, kernels + 1)))
    (folder / "kernelslist.g").write_text("\n".join(listed) + "\n")
    for name in listed:
        if name.startswith("kernel") and "/" not in name and name.isprintable():
            (folder / name.strip()).write_text("-kernel name = k\n")
    return root

"""A small real HTTP server that takes what a worker sends as the contract says, and a fake Accel-Sim checkout."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from aiohttp import web

from cascade_server.contract.models import FILE_NAME
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
    """The server does not want it (a log chunk is taken all the same)."""
    TOO_LARGE = auto()
    """413 before anything was read (files only; anything else is taken all the same)."""
    NONSENSE = auto()
    """200 with a body that is none of the server's (files only)."""


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
    files: dict[str, bytes] = field(default_factory=dict)
    puts: list[str] = field(default_factory=list)
    """The names of all PUT requests."""
    file_faults: dict[str, list[Fault]] = field(default_factory=dict)
    """By name; "" is for the step timeline."""
    timelines: list[dict[str, Any]] = field(default_factory=list)
    hang_files: asyncio.Event | None = None
    """PUT requests wait for it."""
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

    async def put_file(self, request: web.Request) -> web.StreamResponse:
        """PUT …/files/{name}."""
        name = request.match_info["name"]
        self.puts.append(name)
        fault = self._fault_of(name)
        if self.hang_files is not None:
            await self.hang_files.wait()
        if fault is Fault.TOO_LARGE:
            return _answer(413, detail="A file may have at most 10 bytes.")
        data = await request.read()
        if fault is Fault.NONSENSE:
            return _answer(200, hello="world")
        if early := self._early(request, fault):
            return early
        assert re.fullmatch(FILE_NAME, name)
        self.files[name] = data
        about = {"name": name, "size": len(data), "content_type": "x/y", "created_at": "2026-01-01T00:00:00Z"}
        return _cut(request) if fault is Fault.LOSE_REPLY else _answer(200, **about)

    async def post_step_timeline(self, request: web.Request) -> web.StreamResponse:
        """POST …/step-timeline."""
        body = await request.json()
        fault = self._fault_of("")
        if early := self._early(request, fault):
            return early
        self.timelines.append(body)
        return _cut(request) if fault is Fault.LOSE_REPLY else web.Response(status=204)

    def _fault_of(self, name: str) -> Fault:
        faults = self.file_faults.get(name)
        return faults.pop(0) if faults else Fault.NONE

    def _early(self, request: web.Request, fault: Fault) -> web.StreamResponse | None:
        if fault is Fault.DROP:
            return _cut(request)
        if fault is Fault.BUSY:
            return _answer(503, detail="busy")
        if fault is Fault.REFUSE:
            return _answer(422, detail="no")
        return self._refuse(request)

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
    app.router.add_put("/api/sims/{sim_id}/files/{name}", server.put_file)
    app.router.add_post("/api/sims/{sim_id}/step-timeline", server.post_step_timeline)
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
        "-gpgpu_n_clusters 80\n-gpgpu_clock_domains 1132.0:1132.0:1132.0:850.0\n"
        "-inter_config_file more/named.icnt\n#-accelwattch_xml_file gone.xml\n"
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

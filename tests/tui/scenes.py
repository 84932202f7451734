"""Named scenes: the app on a real server with recorded data and a clock that stands still.

The tests compare them with `screenshots/<name>.svg`, which the README and the docs show.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from cascade_server.contract.models import Heartbeat, RunDetail, SimSummary
from cascade_server.contract.states import SimState
from cascade_tui import themes
from cascade_tui.app import CascadeApp
from cascade_tui.screens.run import RunScreen
from cascade_tui.sync import Link
from cascade_tui.widgets.live_table import LiveTable
from tests.recordings import recording_lines
from tests.servers import TOKEN, Running, running_server

from .waiting import until

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
CONFIGS = {"SM7_QV100": "ok-demo-qv100", "SM7_GV100": "ok-demo-gv100", "SM7_TITANV": "ok-demo-titanv"}
SHOWN_URL = "http://127.0.0.1:8000"

Stage = Callable[[Running], Awaitable[str]]
"""Prepares the server, and gives the id of the run to show, or ""."""
Act = Callable[[Pilot[None], str], Awaitable[None]]
"""Goes to what is to be shown."""


def cut(recording: str, kernels: int, blocks: int) -> list[str]:
    """The lines of a recording up to `blocks` issued blocks of the kernel after the first `kernels`."""
    launched = issued = 0
    out = []
    for line in recording_lines(recording):
        launched += line.startswith("launching kernel name:")
        if launched == kernels + 1 and line.startswith("thread block ="):
            issued += 1
        if launched > kernels + 1 or (launched == kernels + 1 and issued > blocks):
            return out
        out.append(line)
    return out


async def empty(server: Running) -> str:
    """Nothing but what comes with Cascade."""
    await server.client.traces()
    return ""


async def mid_run(server: Running) -> str:
    """Three configs × 2 in the middle: some done, some at work, one waiting."""
    server.clock.advance(600)
    run = await server.create(*CONFIGS, count=2)
    sims = {(sim.gpu_config, sim.replica): sim for sim in run.sims}
    plan: list[tuple[str, int, float, int, int]] = [
        ("SM7_TITANV", 0, 6, 12, 0),
        ("SM7_GV100", 0, 0, 7, 24),
        ("SM7_QV100", 0, 0, 8, 9),
        ("SM7_TITANV", 1, 4, 9, 27),
        ("SM7_GV100", 1, 5, 4, 50),
    ]
    for config, replica, wait, kernels, blocks in plan:
        server.clock.advance(wait)
        sim = sims[config, replica]
        await server.feed(sim, cut(CONFIGS[config], kernels, blocks) if kernels < 12 else recording_lines(CONFIGS[config]))
        if kernels == 12:
            server.clock.advance(11)
            await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    server.clock.advance(9)
    return run.id


async def finished_run(server: Running) -> str:
    """The same to the end, one sim failed."""
    server.clock.advance(600)
    run = await server.create(*CONFIGS, count=2)
    for sim in run.sims:
        if (sim.gpu_config, sim.replica) == ("SM7_GV100", 1):
            await fail(server, sim)
        else:
            await server.feed(sim, recording_lines(CONFIGS[sim.gpu_config]))
            server.clock.advance(19)
            await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    return run.id


async def fail(server: Running, sim: SimSummary) -> None:
    """End a sim in the middle with a sentence."""
    await server.feed(sim, cut(CONFIGS[sim.gpu_config], 5, 12))
    server.clock.advance(7)
    error = "The simulator was killed by signal 9 (most likely out of memory) in kernel 6, mlp_gemm<1>."
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.FAILED, error=error, exit_code=-9))


async def stand_in_run(server: Running) -> str:
    """A config without a recording of its own: another one stands in."""
    server.clock.advance(600)
    run: RunDetail = await server.create("SM75_RTX2060" if False else "SM7_QV100")
    return run.id


async def stay(pilot: Pilot[None], run_id: str) -> None:
    """Stay at home, the demo under the cursor."""
    app = pilot.app
    assert isinstance(app, CascadeApp)
    await until(pilot, lambda: app.store.loaded and app.store.trace_detail("demo-sm70") is not None)


async def open_run(pilot: Pilot[None], run_id: str) -> None:
    """Open the run and wait for its log."""
    app = pilot.app
    assert isinstance(app, CascadeApp)
    app.open_run(run_id)
    data = app.store.run(run_id)

    def here() -> bool:
        screen = app.screen
        return isinstance(screen, RunScreen) and screen.sim is not None and len(data.log(screen.sim.id)) > 100

    await until(pilot, here)


def keys(*pressed: str) -> Act:
    """Press keys at home."""

    async def act(pilot: Pilot[None], run_id: str) -> None:
        await stay(pilot, run_id)
        await pilot.press(*pressed)

    return act


def run_keys(*pressed: str) -> Act:
    """Open the run, then press keys."""

    async def act(pilot: Pilot[None], run_id: str) -> None:
        await open_run(pilot, run_id)
        await pilot.press(*pressed)

    return act


@dataclass(frozen=True)
class Scene:
    """A picture: what the server has, what is done, in which size and theme."""

    name: str
    size: tuple[int, int]
    stage: Stage
    act: Act
    theme: str = themes.DARK


SCENES: Sequence[Scene] = (
    Scene("traces-80x24", (80, 24), mid_run, stay),
    Scene("traces-140x40", (140, 40), mid_run, stay),
    Scene("new-run", (100, 30), empty, keys("enter")),
    Scene("runs", (100, 30), finished_run, keys("r")),
    Scene("run-80x24", (80, 24), mid_run, run_keys("down")),
    Scene("run-80x24-chart", (80, 24), mid_run, run_keys("3")),
    Scene("run-140x40", (140, 40), mid_run, run_keys("down")),
    Scene("run-140x40-light", (140, 40), mid_run, run_keys("down"), themes.LIGHT),
    Scene("run-finished", (140, 40), finished_run, run_keys("down")),
    Scene("help", (100, 40), mid_run, run_keys("question_mark")),
)


@asynccontextmanager
async def playing(scene: Scene, folder: Path) -> AsyncIterator[Pilot[None]]:
    """Run a scene up to the moment of its picture."""
    async with running_server(folder) as server:
        run_id = await scene.stage(server)
        app = CascadeApp(server.url, TOKEN, now=server.clock.wall)
        app.url = SHOWN_URL
        async with app.run_test(size=scene.size) as pilot:
            app.theme = scene.theme
            await until(pilot, lambda: app.sync.connection.link is Link.LIVE and app.store.loaded)
            await scene.act(pilot, run_id)
            await settle(pilot)
            yield pilot


async def settle(pilot: Pilot[None]) -> None:
    """Wait until a flush brings nothing new."""
    app = pilot.app
    assert isinstance(app, CascadeApp)
    for _ in range(3):
        for screen in app.screen_stack:
            flush = getattr(screen, "_flush_now", None)
            if flush is not None:
                flush()
        for table in app.screen.query(LiveTable):
            table.refresh()
        await pilot.pause()


async def picture(scene: Scene, folder: Path) -> str:
    """A scene as SVG, the same bytes each time."""
    async with playing(scene, folder) as pilot:
        return normalised(pilot.app.export_screenshot(title=""))


def normalised(svg: str) -> str:
    """An SVG whose ids don't depend on a checksum of its content."""
    return re.sub(r"terminal-\d+-", "terminal-", svg)

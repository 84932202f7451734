"""Named scenes: the app on a real server with recorded data and a clock that stands still.

The tests compare them with `screenshots/<name>.svg`, which the README and the docs show.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from cascade_server.contract.models import Heartbeat
from cascade_server.contract.states import RunState, SimState
from cascade_tui import themes
from cascade_tui.app import CascadeApp
from cascade_tui.screens.base import LiveScreen
from cascade_tui.screens.run import RunScreen
from cascade_tui.sync import Link
from tests.recordings import recording_lines
from tests.servers import TOKEN, Running, running_server

from .recorded import FAILURE, RECORDED, cut
from .waiting import app_of, until

SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
SHOWN_URL = "http://127.0.0.1:8000"

Stage = Callable[[Running], Awaitable[str]]
"""Prepares the server, and gives the id of the run to show, or ""."""
Act = Callable[[Pilot[None], str], Awaitable[None]]
"""Goes to what is to be shown."""


# -- what the server has ---------------------------------------------------------------------


async def bundled(server: Running) -> str:
    """Nothing but what comes with Cascade."""
    return ""


async def mid_run(server: Running) -> str:
    """Three configs × 2 in the middle: one done, four at work, one waiting."""
    server.clock.advance(600)
    run = await server.create(*RECORDED, count=2)
    sims = {(sim.gpu_config, sim.replica): sim for sim in run.sims}
    plan = [
        ("SM7_TITANV", 0, 2, 12, 0),
        ("SM7_GV100", 0, 0, 7, 24),
        ("SM7_QV100", 0, 0, 8, 9),
        ("SM7_TITANV", 1, 0, 9, 27),
        ("SM7_GV100", 1, 16, 4, 50),
    ]
    for config, replica, wait, kernels, blocks in plan:
        server.clock.advance(wait)
        sim = sims[config, replica]
        if kernels == 12:
            await server.feed(sim, recording_lines(RECORDED[config]))
            server.clock.advance(15)
            await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
        else:
            await server.feed(sim, cut(RECORDED[config], kernels, blocks))
    server.clock.advance(12)
    return run.id


async def finished_run(server: Running) -> str:
    """The same to the end, one sim failed."""
    server.clock.advance(600)
    run = await server.create(*RECORDED, count=2)
    for sim in run.sims:
        if (sim.gpu_config, sim.replica) == ("SM7_GV100", 1):
            await server.feed(sim, cut(RECORDED[sim.gpu_config], 5, 12))
            server.clock.advance(7)
            beat = Heartbeat(state=SimState.FAILED, error=FAILURE, exit_code=-9)
            await server.client.heartbeat(sim.id, beat)
        else:
            await server.feed(sim, recording_lines(RECORDED[sim.gpu_config]))
            server.clock.advance(19)
            await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    return run.id


async def stand_in_run(server: Running) -> str:
    """A recording of another trace stands in: the numbers say nothing about this one."""
    server.clock.advance(600)
    run = await server.create("SM7_QV100", "SM7_TITANV")
    for sim, kernels in zip(run.sims, (3, 5), strict=True):
        await server.feed(sim, cut("ok-layers4-a100", kernels, 20))
    server.clock.advance(21)
    return run.id


async def sample_is_there(server: Running) -> None:
    """Wait for the sample run, which the server makes by itself, so that ids come in the same order each time."""
    async with asyncio.timeout(20):
        while not any(run.state is RunState.SUCCEEDED for run in await server.client.runs()):
            await asyncio.sleep(0.005)


# -- what is done ----------------------------------------------------------------------------


def home(*pressed: str) -> Act:
    """Stay at home with the demo under the cursor, then press keys."""

    async def act(pilot: Pilot[None], run_id: str) -> None:
        store = app_of(pilot).store
        await until(pilot, lambda: store.trace_detail("demo-sm70") is not None)
        await pilot.press(*pressed)

    return act


def in_run(*pressed: str) -> Act:
    """Open the run, press keys, and wait for the log of the sim chosen then."""

    async def act(pilot: Pilot[None], run_id: str) -> None:
        app_of(pilot).open_run(run_id)
        await until(pilot, lambda: log_is_here(app_of(pilot)))
        await pilot.press(*pressed)
        await until(pilot, lambda: not isinstance(app_of(pilot).screen, RunScreen) or log_is_here(app_of(pilot)))

    return act


def log_is_here(app: CascadeApp) -> bool:
    """Whether the fetched end of the chosen sim's log has come."""
    screen = app.screen
    if not isinstance(screen, RunScreen) or screen.sim is None:
        return False
    return len(screen.data.log(screen.sim.id)) >= min(screen.sim.log_lines, 1000)


@dataclass(frozen=True)
class Scene:
    """A picture: what the server has, what is done, in which size and theme."""

    name: str
    size: tuple[int, int]
    stage: Stage
    act: Act
    theme: str = themes.DARK
    replay_log: str | None = None


SCENES: Sequence[Scene] = (
    Scene("traces-80x24", (80, 24), mid_run, home()),
    Scene("traces-140x40", (140, 40), mid_run, home()),
    Scene("new-run", (100, 30), bundled, home("enter")),
    Scene("runs", (100, 30), finished_run, home("r")),
    Scene("run-80x24", (80, 24), mid_run, in_run("down", "down")),
    Scene("run-80x24-chart", (80, 24), mid_run, in_run("3")),
    Scene("run-140x40", (140, 40), mid_run, in_run("down", "down")),
    Scene("run-140x40-light", (140, 40), mid_run, in_run("down", "down"), themes.LIGHT),
    Scene("run-finished", (140, 40), finished_run, in_run("down", "down", "down")),
    Scene("run-stand-in", (100, 30), stand_in_run, in_run(), replay_log="ok-layers4-a100"),
    Scene("run-60x20", (60, 20), mid_run, in_run()),
    Scene("help", (140, 40), mid_run, in_run("question_mark")),
)


@asynccontextmanager
async def playing(scene: Scene, folder: Path) -> AsyncIterator[Pilot[None]]:
    """Run a scene up to its picture."""
    values: dict[str, Any] = {}
    if scene.replay_log:
        values["replay_log"] = folder / f"{scene.replay_log}.log"
        values["replay_log"].touch()
    async with running_server(folder / "data", **values) as server:
        await sample_is_there(server)
        run_id = await scene.stage(server)
        app = CascadeApp(server.url, TOKEN, now=server.clock.wall)
        app.url = SHOWN_URL
        async with app.run_test(size=scene.size) as pilot:
            app.theme = scene.theme
            await until(pilot, lambda: app.sync.connection.link is Link.LIVE and len(app.store.runs) > bool(run_id))
            await scene.act(pilot, run_id)
            yield pilot


async def settle(pilot: Pilot[None]) -> str:
    """Show the store as it is, without waiting for the next flush; give the picture once it stays the same."""
    same, last = 0, ""
    while same < 3:
        for screen in pilot.app.screen_stack:
            if isinstance(screen, LiveScreen):
                screen.flush_now()
        await pilot.pause()
        svg = pilot.app.export_screenshot(title="")
        same = same + 1 if svg == last else 0
        last = svg
    return last


async def picture(scene: Scene, folder: Path) -> str:
    """A scene as SVG, the same bytes each time."""
    async with playing(scene, folder) as pilot:
        return normalised(await settle(pilot))


def normalised(svg: str) -> str:
    """An SVG whose ids don't depend on a checksum of its content, and that loads no font from elsewhere."""
    own = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"terminal-\d+-", "terminal-", own)

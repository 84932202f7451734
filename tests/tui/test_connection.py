"""The link to a real server: live, away, back, refused; launching and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer, unused_port
from textual.pilot import Pilot

from cascade_server.app import make_app
from cascade_server.contract.client import CascadeClient
from cascade_server.contract.models import Heartbeat, RunCreate, RunDetail, RunEntry
from cascade_server.contract.states import RunState, SimState
from cascade_tui.app import CascadeApp
from cascade_tui.screens.confirm import Confirm
from cascade_tui.screens.new_run import NewRunScreen
from cascade_tui.screens.run import RunScreen
from cascade_tui.sync import Link, Pace
from tests.servers import TOKEN, make_settings, running_server

from .flying import row_keys, shown, text_of
from .recorded import cut
from .waiting import until

PACE = Pace(poll_s=0.02, base_s=0.02, cap_s=0.1)


@asynccontextmanager
async def flying(url: str, token: str | None = TOKEN) -> AsyncIterator[tuple[Pilot[None], CascadeApp]]:
    """Fly the app against a server, at a quick pace."""
    app = CascadeApp(url, token, pace=PACE)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        yield pilot, app


@asynccontextmanager
async def serving(folder: Path, port: int) -> AsyncIterator[CascadeClient]:
    """A server at a known port, that can be started again on the same data."""
    server = TestServer(make_app(make_settings(folder)), port=port)
    await server.start_server()
    try:
        async with CascadeClient(f"http://127.0.0.1:{port}", TOKEN) as client:
            yield client
    finally:
        await server.close()


async def start_run(client: CascadeClient) -> RunDetail:
    return await client.create_run(RunCreate(trace_id="demo-sm70", entries=[RunEntry(gpu_config="SM7_QV100", count=1)]))


def link(app: CascadeApp) -> Link:
    return app.sync.connection.link


async def test_everything_moves_live(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url) as (pilot, app):
        await until(pilot, lambda: link(app) is Link.LIVE and app.store.trace("demo-sm70") is not None)
        run = await server.create("SM7_QV100")
        await until(pilot, lambda: run.id in [r.id for r in app.store.runs])
        app.open_run(run.id)
        data = app.store.run(run.id)
        await until(pilot, lambda: data.detail is not None)
        await server.feed(run.sims[0], cut("ok-demo-qv100", 3, 7))
        await until(pilot, lambda: data.sims[0].kernels_done == 3)
        await shown(pilot)
        text = text_of(pilot)
        assert "3/12" in text
        assert "issued 7/32 blocks" in text
        assert len(data.times_ns()["SM7_QV100"]) == 3
        await until(pilot, lambda: data.log(run.sims[0].id).first == 0 or len(data.log(run.sims[0].id)) >= 5000)


async def test_the_server_dies_and_comes_back(tmp_path: Path) -> None:
    port = unused_port()
    url = f"http://127.0.0.1:{port}"
    lines = cut("ok-demo-qv100", 3, 7)
    async with serving(tmp_path, port) as client:
        run = await start_run(client)
        sim = run.sims[0]
        await client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
        await client.post_logs(sim.id, 0, lines)
        app = CascadeApp(url, TOKEN, pace=PACE)
        context = app.run_test(size=(120, 40), notifications=True)
        pilot = await context.__aenter__()
        app.open_run(run.id)
        data = app.store.run(run.id)
        await until(pilot, lambda: link(app) is Link.LIVE and bool(data.sims) and data.sims[0].kernels_done == 3)
        await shown(pilot)
    try:
        await until(pilot, lambda: app.sync.connection.stale)
        await until(pilot, lambda: link(app) is Link.OFFLINE)
        assert app.screen.has_class("-stale")
        text = text_of(pilot)
        assert "3/12" in text, "the last data stays"
        assert "offline" in text
        assert "next try in" in text or "trying now" in text
        await pilot.press("c", "y")
        await until(pilot, lambda: "can't reach" in text_of(pilot))

        async with serving(tmp_path, port) as client:
            more = cut("ok-demo-qv100", 5, 2)
            await client.post_logs(sim.id, len(lines), more[len(lines) :])
            await until(pilot, lambda: link(app) is Link.LIVE and data.sims[0].kernels_done == 5)
            await shown(pilot)
            assert not app.screen.has_class("-stale")
            assert "5/12" in text_of(pilot)
            assert len(data.times_ns()["SM7_QV100"]) == 5
            log = data.log(sim.id)
            await until(pilot, lambda: log.end == len(more))
            assert log.slice(log.first, log.end) == more[log.first :]
            await context.__aexit__(None, None, None)
    except BaseException:
        await context.__aexit__(None, None, None)
        raise


async def test_no_server_at_all() -> None:
    async with flying(f"http://127.0.0.1:{unused_port()}") as (pilot, app):
        await until(pilot, lambda: link(app) is Link.OFFLINE)
        text = text_of(pilot)
        assert "○ offline" in text
        await pilot.press("n", "enter", "r", "enter", "t", "2", "3")


async def test_a_wrong_token_is_told(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url, "wrong") as (pilot, app):
        await until(pilot, lambda: link(app) is Link.REFUSED)
        assert "✗ token refused" in text_of(pilot)


async def test_launching_opens_the_run_and_cancelling_ends_it(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url) as (pilot, app):
        await until(pilot, lambda: app.store.trace("demo-sm70") is not None and app.store.configs is not None)
        await shown(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, NewRunScreen))
        await pilot.press("plus", "plus", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        runs = [run for run in await server.client.runs() if not run.sample]
        assert [(e.gpu_config, e.count) for e in runs[0].entries] == [
            ("SM7_GV100", 3),
            ("SM7_QV100", 1),
            ("SM7_TITANV", 1),
        ]
        data = app.store.run(runs[0].id)
        await until(pilot, lambda: data.detail is not None and len(row_keys(app, "#sims")) == 5)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("right", "enter")
        await until(pilot, lambda: data.detail is not None and data.detail.state is RunState.CANCELLED)
        await shown(pilot)
        assert "⊘ cancelled" in text_of(pilot)


async def test_the_servers_refusal_is_shown_in_place(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url) as (pilot, app):
        await until(pilot, lambda: app.store.trace("demo-sm70") is not None and app.store.configs is not None)
        await shown(pilot)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, NewRunScreen))
        assert app.store.configs is not None
        app.store.configs = [c.model_copy(update={"name": c.name + "X"}) for c in app.store.configs]
        screen = app.screen
        assert isinstance(screen, NewRunScreen)
        screen.request_flush()
        await pilot.pause()
        await pilot.press("g", "space", "enter")
        await until(pilot, lambda: "✗" in text_of(pilot))
        assert "SM7_GV100X" in text_of(pilot)
        assert app.screen is screen


async def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url) as (pilot, app):
        await until(pilot, lambda: link(app) is Link.LIVE)
        app.open_run("run-nope")
        await until(pilot, lambda: bool(app.store.run("run-nope").missing))
        await shown(pilot)
        assert "run-nope" in text_of(pilot)
        assert link(app) is Link.LIVE, "the link is fine"


async def test_leaving_a_run_ends_its_stream(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, flying(server.url) as (pilot, app):
        await until(pilot, lambda: link(app) is Link.LIVE)
        run = await server.create("SM7_QV100")
        app.open_run(run.id)
        data = app.store.run(run.id)
        await until(pilot, lambda: data.detail is not None)
        await pilot.press("escape")
        await until(pilot, lambda: not any(w.group == "sync-run" and w.is_running for w in app.workers))
        await server.feed(run.sims[0], ["line"])
        await asyncio.sleep(0)
        assert data.sims[0].state is not SimState.RUNNING


@pytest.mark.parametrize("attempt", [1, 3, 10, 50, 2000])
def test_the_backoff_is_bounded(attempt: int) -> None:
    pace = Pace()
    assert pace.backoff(attempt, 0.0) == pytest.approx(0.05)
    assert pace.backoff(attempt, 1.0) <= 15.0
    assert pace.backoff(1, 1.0) == pytest.approx(1.0)

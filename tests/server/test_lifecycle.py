"""Silence, loss and return, on a clock that the test holds; and every legal and illegal move."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cascade_server.contract.models import Heartbeat, SimSummary
from cascade_server.contract.states import SimState, may_move
from tests.servers import Running, running_server

BEAT = Heartbeat(state=SimState.RUNNING)


async def state(server: Running, sim: SimSummary) -> SimState:
    return (await server.core.runs.sim(sim.id)).state


async def test_silence_makes_lost_then_failed_and_a_heartbeat_brings_back(tmp_path: Path) -> None:
    async with running_server(tmp_path, heartbeat_timeout_s=60) as server:
        (sim,) = (await server.create()).sims
        await server.client.heartbeat(sim.id, BEAT)
        server.clock.advance(59)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.RUNNING
        server.clock.advance(2)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.LOST
        await server.client.heartbeat(sim.id, BEAT)
        assert await state(server, sim) is SimState.RUNNING
        server.clock.advance(61)
        await server.core.lifecycle.check_silence()
        server.clock.advance(598)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.LOST
        server.clock.advance(5)
        await server.core.lifecycle.check_silence()
        found = await server.core.runs.sim(sim.id)
        assert (found.state, found.error) == (SimState.FAILED, "The worker has not been heard of for 664 s.")
        # Its worker lives after all: it must not go on for nobody.
        assert (await server.client.heartbeat(sim.id, BEAT)).cancel


async def test_pending_sims_are_never_lost(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        (sim,) = (await server.create()).sims
        server.clock.advance(100_000)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.PENDING


async def test_time_without_a_server_is_no_silence(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        (sim,) = (await server.create()).sims
        await server.client.heartbeat(sim.id, BEAT)
        clock = server.clock
    clock.advance(100_000)
    async with running_server(tmp_path, clock=clock) as server:
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.RUNNING
        clock.advance(61)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.LOST


async def test_a_wall_clock_that_jumps_loses_nobody(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        (sim,) = (await server.create()).sims
        await server.client.heartbeat(sim.id, BEAT)
        server.clock.now = server.clock.now.replace(year=2036)
        await server.core.lifecycle.check_silence()
        assert await state(server, sim) is SimState.RUNNING


STEPS = st.sampled_from(["running", "succeeded", "failed", "cancel", "silence", "launching", "fail"])


@given(st.lists(STEPS, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_only_legal_moves_are_made(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    async def play() -> None:
        async with running_server(tmp_path_factory.mktemp("data"), samples=True) as server:
            (sim,) = (await server.create()).sims
            now = SimState.PENDING
            for step in steps:
                await act(server, sim, step)
                after = await state(server, sim)
                # A worker started by hand goes through launching in one heartbeat.
                through = now is SimState.PENDING and may_move(SimState.LAUNCHING, after)
                assert after is now or may_move(now, after) or through, (now, step, after)
                now = after

    asyncio.run(play())


async def act(server: Running, sim: SimSummary, step: str) -> None:
    lifecycle = server.core.lifecycle
    if step == "cancel":
        await lifecycle.cancel_run(sim.run_id)
    elif step == "silence":
        server.clock.advance(61)
        await lifecycle.check_silence()
    elif step == "launching":
        await lifecycle.launching(sim.id)
    elif step == "fail":
        await lifecycle.fail(sim.id, "a reason")
    else:
        await lifecycle.heartbeat(sim.id, Heartbeat.model_validate({"state": step}))

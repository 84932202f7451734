"""What was printed arrives exactly once over a real connection, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.contract.client import CascadeClient
from cascade_server.contract.models import Heartbeat
from cascade_server.contract.states import SimState
from cascade_worker.reporter import Reporter
from cascade_worker.retry import Backoff, SimOver, Undeliverable
from cascade_worker.spool import Spool
from tests.recordings import recording_bytes
from tests.worker.stand_ins import SIM_ID, TOKEN, FakeServer, Fault, fake_server

SUCCEEDED = Heartbeat(state=SimState.SUCCEEDED, exit_code=0)


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def reporting(
    server: FakeServer, folder: Path, *, token: str = TOKEN, sim_id: str = SIM_ID, **limits: int
) -> AsyncIterator[tuple[Spool, Callable[..., Reporter]]]:
    async with CascadeClient(server.url, token) as client:
        with closing(Spool(folder / "log", **limits)) as spool:

            def make(**options: Any) -> Reporter:
                given: dict[str, Any] = {"patience_s": 1e9, "gather_s": 0.0, "sleep": no_sleep} | options
                return Reporter(client, sim_id, spool, **given)

            yield spool, make


async def deliver(reporter: Reporter, spool: Spool, pieces: list[bytes]) -> None:
    sending = asyncio.create_task(reporter.run())
    for piece in pieces:
        spool.write(piece)
        reporter.notify()
        await asyncio.sleep(0)
    reporter.close()
    async with asyncio.timeout(30):
        await sending


@settings(deadline=None, max_examples=25)
@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=200), st.sampled_from([b"line\n", b"\xff\n\n", b"half"])), max_size=20
    ),
    faults=st.lists(st.sampled_from(list(Fault)), max_size=40),
)
def test_every_byte_arrives_once_through_any_faults(pieces: list[bytes], faults: list[Fault]) -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with (
                fake_server() as server,
                reporting(server, Path(folder), chunk_bytes=64, chunk_lines=4) as (spool, make),
            ):
                server.faults = list(faults)
                await deliver(make(), spool, pieces)
                assert server.log == b"".join(pieces)

    asyncio.run(scenario())


async def test_a_whole_recording_arrives_byte_for_byte(tmp_path: Path) -> None:
    log = recording_bytes("ok-k8-a100")
    draw = random.Random(7)
    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        server.faults = draw.choices(list(Fault), k=20)
        cuts = sorted(draw.randrange(len(log)) for _ in range(50))
        await deliver(make(), spool, [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True)])
        assert server.log == log


async def test_long_lines_arrive_whole(tmp_path: Path) -> None:
    log = b"short\n" + b"x" * (3 << 20) + b"\n" + b"\xff" * (1 << 20) + b"\nend"
    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        await deliver(make(), spool, [log])
        assert server.log == log


async def test_goes_on_when_the_server_is_back(tmp_path: Path) -> None:
    down = asyncio.Event()
    tries = 0

    async def sleep(_: float) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            down.set()
        await asyncio.sleep(0.001)

    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        reporter = make(sleep=sleep)
        arrived = asyncio.Event()
        server.on_log = arrived.set
        sending = asyncio.create_task(reporter.run())
        spool.write(b"before\n")
        reporter.notify()
        await arrived.wait()
        port = int(server.url.rpartition(":")[2])
        # The first server's context is left further down; what matters is that nothing listens now.
        stopped = await stop(server)
        spool.write(b"while away\n")
        reporter.notify()
        await down.wait()
        assert reporter.pending == len(b"while away\n")
        async with fake_server(port, stopped):
            spool.write(b"after\n")
            reporter.close()
            async with asyncio.timeout(10):
                await sending
        assert server.log == b"before\nwhile away\nafter\n"


async def stop(server: FakeServer) -> FakeServer:
    assert server.stop is not None
    await server.stop()
    return server


async def test_small_writes_are_gathered(tmp_path: Path) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        reporter = make(gather_s=3600.0)
        sending = asyncio.create_task(reporter.run())
        for number in range(100):
            spool.write(b"%d\n" % number)
            reporter.notify()
            await asyncio.sleep(0)
        assert server.chunks == []
        reporter.close()
        await sending
        assert server.chunks == [0]
        assert len(server.lines) == 100


async def test_much_is_sent_at_once(tmp_path: Path) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        reporter = make(gather_s=3600.0)
        arrived = asyncio.Event()
        server.on_log = arrived.set
        sending = asyncio.create_task(reporter.run())
        spool.write(b"x" * 99 + b"\n" * (300 << 10))
        reporter.notify()
        async with asyncio.timeout(10):
            await arrived.wait()
        reporter.close()
        await sending


@pytest.mark.parametrize(("token", "sim_id"), [("wrong", SIM_ID), (TOKEN, "sim-of-others")])
async def test_a_sim_that_is_not_ours_ends_it(tmp_path: Path, token: str, sim_id: str) -> None:
    async with fake_server() as server, reporting(server, tmp_path, token=token, sim_id=sim_id) as (spool, make):
        reporter = make()
        with pytest.raises(SimOver):
            await deliver(reporter, spool, [b"line\n"])
        with pytest.raises(SimOver):
            await reporter.finish(SUCCEEDED)


async def test_lines_of_another_worker_are_not_continued(tmp_path: Path) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        server.lines = [b"another's"] * 9
        with pytest.raises(
            Undeliverable, match="The server holds 9 lines of this sim, more than its simulator printed"
        ):
            await deliver(make(), spool, [b"one\n"])


async def test_patience_ends_only_after_the_simulator(tmp_path: Path) -> None:
    now = 0.0
    tries = 0

    async def sleep(seconds: float) -> None:
        nonlocal now, tries
        now += seconds
        tries += 1
        if tries == 30:
            reporter.close()
        await asyncio.sleep(0)

    async with fake_server() as server, reporting(server, tmp_path) as (spool, make):
        server.faults = [Fault.BUSY] * 10_000
        reporter = make(sleep=sleep, clock=lambda: now, patience_s=100.0, draw=lambda low, high: high)
        spool.write(b"line\n")
        reporter.notify()
        async with asyncio.timeout(30):
            with pytest.raises(Undeliverable, match="The server took nothing for"):
                await reporter.run()
    assert tries > 30


@pytest.mark.parametrize("faults", [[Fault.LOSE_REPLY], [Fault.DROP, Fault.BUSY, Fault.LOSE_REPLY, Fault.BUSY]])
async def test_the_final_heartbeat_counts_once_its_token_is_void(tmp_path: Path, faults: list[Fault]) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (_, make):
        server.beat_faults = list(faults)
        await make().finish(SUCCEEDED)
        assert server.beats == [{"state": "succeeded", "error": None, "exit_code": 0}]


async def test_a_refused_connection_is_no_lost_reply(tmp_path: Path) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (_, make):
        port = int(server.url.rpartition(":")[2])
        await stop(server)
        restarted: list[Any] = []

        async def sleep(_: float) -> None:
            if not restarted:
                server.over = True
                context = fake_server(port, server)
                restarted.append(context)
                await context.__aenter__()

        try:
            with pytest.raises(SimOver):
                await make(sleep=sleep).finish(SUCCEEDED)
        finally:
            await restarted[0].__aexit__(None, None, None)


async def test_a_refusal_is_not_repeated_for_ever(tmp_path: Path) -> None:
    async with fake_server() as server, reporting(server, tmp_path) as (_, make):
        server.beat_faults = [Fault.REFUSE]
        with pytest.raises(Undeliverable, match="The server refused the report: no"):
            await make().finish(SUCCEEDED)


def test_waits_grow_to_their_limit_and_start_again() -> None:
    backoff = Backoff(lambda low, high: high)
    assert [backoff.next() for _ in range(9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]
    backoff.reset()
    assert backoff.next() == 0.2


def test_waits_are_drawn_from_nothing_on() -> None:
    backoff = Backoff(random.Random(1).uniform)
    waits = [backoff.next() for _ in range(2000)]
    assert min(waits) < 0.1
    assert 14.0 < max(waits) <= 15.0

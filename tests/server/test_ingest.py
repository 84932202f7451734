"""Chunks in any cut, repeated, across restarts: the same kernels, the same log, once."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.contract.client import Conflict
from cascade_server.contract.models import SimSummary
from tests.recordings import TRUTH, recording_bytes, recording_lines
from tests.servers import Running, running_server

NAMES = ["ok-concurrent2-rtx3070", "ok-vec4-rtx2060", "cut-max-insn-rtx3070", "fail-killed"]


async def check(server: Running, sim: SimSummary, name: str) -> None:
    truth = TRUTH[name]["kernels"]
    kernels = await server.client.run_kernels(sim.run_id)
    assert [(k.kernel_index, k.gpu_sim_cycle, k.gpu_sim_insn, k.gpu_ipc) for k in kernels] == [
        (i, t.get("gpu_sim_cycle"), t.get("gpu_sim_insn"), t.get("gpu_ipc")) for i, t in enumerate(truth)
    ]
    stored = b"".join([chunk async for chunk in server.client.sim_log(sim.id)])
    assert stored == recording_bytes(name)
    (again,) = (await server.client.run(sim.run_id)).sims
    assert again.kernels_done == len(truth)
    assert again.log_lines == len(recording_lines(name))


@given(
    name=st.sampled_from(NAMES),
    cuts=st.lists(st.integers(0, 12000), max_size=12),
    restarts=st.sets(st.integers(0, 12)),
    back=st.integers(0, 500),
)
@settings(max_examples=20, deadline=None)
def test_any_cut_any_repeat_any_restart(
    tmp_path_factory: pytest.TempPathFactory, name: str, cuts: list[int], restarts: set[int], back: int
) -> None:
    lines = recording_lines(name)
    unterminated = not recording_bytes(name).endswith(b"\n")
    ends = sorted({min(c, len(lines)) for c in cuts} | {0, len(lines)})

    async def play() -> None:
        folder = tmp_path_factory.mktemp("data")
        async with running_server(folder) as server:
            (sim,) = (await server.create()).sims
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            async with running_server(folder) as server:
                # Each chunk repeats some lines of the one before, as after a lost answer.
                first = max(0, start - back)
                last = unterminated and end == len(lines)
                reply = await server.client.post_logs(sim.id, first, lines[first:end], unterminated=last)
                assert reply.next_seq == end
                if number in restarts:
                    continue
                with pytest.raises(Conflict) as gap:
                    await server.client.post_logs(sim.id, end + 1, ["x"])
                assert gap.value.next_seq == end
        async with running_server(folder) as server:
            await check(server, sim, name)

    asyncio.run(play())


async def test_a_failed_transaction_leaves_no_trace_and_the_chunk_can_be_sent_again(tmp_path: Path) -> None:
    name = "ok-vec4-rtx2060"
    lines = recording_lines(name)
    async with running_server(tmp_path) as server:
        (sim,) = (await server.create()).sims
        await server.client.post_logs(sim.id, 0, lines[:3000])
        async with server.core.db.transaction() as db:
            await db.execute("CREATE TRIGGER no BEFORE INSERT ON kernels BEGIN SELECT RAISE(ABORT, 'no'); END")
        from cascade_server.contract.client import ApiError

        with pytest.raises(ApiError) as refused:
            await server.client.post_logs(sim.id, 3000, lines[3000:])
        assert refused.value.status == 500
        assert (await server.client.run(sim.run_id)).sims[0].log_lines == 3000
        async with server.core.db.transaction() as db:
            await db.execute("DROP TRIGGER no")
        await server.client.post_logs(sim.id, 3000, lines[3000:])
        await check(server, sim, name)


async def test_many_small_chunks_are_merged_into_frames(tmp_path: Path) -> None:
    name = "ok-k8-rtx3070"
    lines = recording_lines(name)
    async with running_server(tmp_path) as server:
        (sim,) = (await server.create()).sims
        for at in range(0, len(lines), 50):
            await server.client.post_logs(sim.id, at, lines[at : at + 50])
        await check(server, sim, name)
    with sqlite3.connect(tmp_path / "cascade.db") as db:
        query = "SELECT count(*), sum(length(data)) FROM log_chunks WHERE sim_id = ?"
        chunks, stored = db.execute(query, (sim.id,)).fetchone()
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
    assert chunks < 12
    assert stored < len(recording_bytes(name)) / 10


async def test_workers_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    name = "ok-vec4-rtx2060"
    async with running_server(tmp_path) as server:
        run = await server.create(count=8)
        await asyncio.gather(*(server.feed(sim, recording_lines(name), chunk=500) for sim in run.sims))
        kernels = await server.client.run_kernels(run.id)
        cycles = [k["gpu_sim_cycle"] for k in TRUTH[name]["kernels"]]
        assert [k.gpu_sim_cycle for k in kernels] == cycles * 8

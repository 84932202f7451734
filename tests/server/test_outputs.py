"""Output files and step timelines: stored whole or not at all, served as they came."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.client import ApiError, Invalid, NotFound, Unreachable
from cascade_server.contract.models import FILE_NAME, Heartbeat, StepTimelineBody
from cascade_server.contract.states import SimState
from cascade_server.services.outputs import content_type
from tests.servers import TOKEN, Running, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_server(tmp_path, max_file_bytes=1_000_000) as running:
        yield running


async def read(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def stored(tmp_path: Path) -> list[Path]:
    return sorted(path for path in (tmp_path / "files").rglob("*") if path.is_file())


async def test_files_come_back_byte_for_byte_with_their_types(server: Running) -> None:
    (sim,) = (await server.create()).sims
    data = bytes(range(256)) * 1000
    for name in ("kernel-stats.csv", "simulator.log.gz", "notes.TXT", "x.json", "y.log", "a.bin", "..."):
        await server.client.put_file(sim.id, name, data)
    files = await server.client.sim_files(sim.id)
    assert [(f.name, f.content_type) for f in files] == [
        ("...", "application/octet-stream"),
        ("a.bin", "application/octet-stream"),
        ("kernel-stats.csv", "text/csv"),
        ("notes.TXT", "text/plain"),
        ("simulator.log.gz", "application/gzip"),
        ("x.json", "application/json"),
        ("y.log", "text/plain"),
    ]
    assert all(f.size == len(data) for f in files)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        for file in files:
            async with http.get(f"{server.url}/api/sims/{sim.id}/files/{file.name}") as response:
                assert await response.read() == data
                assert response.headers["Content-Type"].split(";")[0] == file.content_type
                assert response.headers["Content-Disposition"] == f'attachment; filename="{file.name}"'
                assert "Content-Encoding" not in response.headers
                etag = response.headers["ETag"]
            headers = {"If-None-Match": etag}
            async with http.get(f"{server.url}/api/sims/{sim.id}/files/{file.name}", headers=headers) as response:
                assert response.status == 304


async def test_a_re_put_replaces_the_file_at_once_or_not_at_all(server: Running, tmp_path: Path) -> None:
    (sim,) = (await server.create()).sims
    await server.client.put_file(sim.id, "a.txt", b"first")
    await server.client.put_file(sim.id, "a.txt", b"second")
    assert await read(server.client.sim_file(sim.id, "a.txt")) == b"second"
    assert len(stored(tmp_path)) == 1

    async def broken() -> AsyncIterator[bytes]:
        yield b"half of the th"
        raise OSError("the worker died")

    with pytest.raises(Unreachable):
        await server.client.put_file(sim.id, "a.txt", broken())
    assert await read(server.client.sim_file(sim.id, "a.txt")) == b"second"
    assert [f.size for f in await server.client.sim_files(sim.id)] == [6]


async def test_a_file_over_the_limit_is_refused_and_leaves_nothing(server: Running, tmp_path: Path) -> None:
    (sim,) = (await server.create()).sims
    await server.client.put_file(sim.id, "full.bin", b"x" * 1_000_000)
    with pytest.raises(ApiError) as refused:
        await server.client.put_file(sim.id, "over.bin", b"x" * 1_000_001)
    assert refused.value.status == 413
    assert "at most 1000000 bytes" in refused.value.detail
    assert [f.name for f in await server.client.sim_files(sim.id)] == ["full.bin"]
    assert len(stored(tmp_path)) == 1


@pytest.mark.parametrize("name", ["..", ".", "a b", "a/b", "../a", "a\\b", "ä", "x" * 129, "a\n", "%2e%2e", "a\0"])
async def test_names_outside_the_pattern_are_refused(server: Running, tmp_path: Path, name: str) -> None:
    (sim,) = (await server.create()).sims
    with pytest.raises((Invalid, NotFound)):
        await server.client.put_file(sim.id, name, b"x")
    assert not (tmp_path / "files").exists() or not stored(tmp_path)


async def test_unknown_sims_and_files_are_named(server: Running) -> None:
    (sim,) = (await server.create()).sims
    with pytest.raises(NotFound, match="no sim 'sim-x'"):
        await server.client.put_file("sim-x", "a", b"x")
    with pytest.raises(NotFound, match="no file 'a'"):
        await read(server.client.sim_file(sim.id, "a"))
    with pytest.raises(NotFound):
        await server.client.sim_files("sim-x")
    with pytest.raises(NotFound):
        await server.client.run_files("run-x")
    with pytest.raises(NotFound):
        await server.client.step_timelines("run-x")


async def test_a_runs_files_are_ordered_by_config_replica_and_name(server: Running) -> None:
    run = await server.create("SM7_TITANV", "SM7_GV100", count=2)
    for sim in reversed(run.sims):
        for name in ("b", "a"):
            await server.client.put_file(sim.id, name, b"x")
    files = await server.client.run_files(run.id)
    assert [(f.gpu_config, f.replica, f.name) for f in files] == [
        (config, replica, name) for config in ("SM7_GV100", "SM7_TITANV") for replica in (0, 1) for name in ("a", "b")
    ]


async def test_timelines_are_stored_replaced_and_ordered(server: Running) -> None:
    run = await server.create("SM7_TITANV", "SM7_GV100")
    assert await server.client.step_timelines(run.id) == []
    for sim in run.sims:
        await server.client.post_step_timeline(sim.id, StepTimelineBody(simulated={"steps": []}))
        body = StepTimelineBody(simulated={"steps": [{"é": 1.5}]}, compare={"mape": None})
        await server.client.post_step_timeline(sim.id, body)
    found = await server.client.step_timelines(run.id)
    assert [(t.gpu_config, t.simulated, t.compare) for t in found] == [
        ("SM7_GV100", {"steps": [{"é": 1.5}]}, {"mape": None}),
        ("SM7_TITANV", {"steps": [{"é": 1.5}]}, {"mape": None}),
    ]


async def test_a_sims_own_token_stores_its_outputs_until_it_ends(server: Running) -> None:
    mine, other = (await server.create(count=2)).sims
    async with server.sim_client(mine.id) as worker:
        await worker.put_file(mine.id, "a", b"x")
        await worker.post_step_timeline(mine.id, StepTimelineBody(simulated={}))
        for call in (worker.put_file(other.id, "a", b"x"), worker.sim_files(mine.id)):
            with pytest.raises(ApiError) as refused:
                await call
            assert refused.value.status == 401
        await worker.heartbeat(mine.id, Heartbeat(state=SimState.SUCCEEDED))
        with pytest.raises(ApiError) as refused:
            await worker.put_file(mine.id, "b", b"x")
        assert refused.value.status == 401


@given(st.from_regex(FILE_NAME, fullmatch=True))
def test_every_allowed_name_has_a_type(name: str) -> None:
    assert "/" in content_type(name)

"""Results streamed: whole, exact, valid JSON, conditional, compressed where asked."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cascade_server.contract.client import NotFound
from cascade_server.contract.models import RunResults, SimResults
from cascade_server.routes.respond import COMPRESS_FROM
from cascade_server.simlog.parser import KernelBlock, LogParser
from tests.recordings import recording_bytes, recording_lines
from tests.servers import TOKEN, Running, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_server(tmp_path) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}, auto_decompress=False) as session:
        yield session


async def read(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


def blocks(name: str) -> list[KernelBlock]:
    return [item for item in LogParser().feed(recording_lines(name)) if isinstance(item, KernelBlock)]


@pytest.mark.parametrize("chunk", [50, 100_000])
async def test_sim_results_hold_every_statistic_of_every_kernel(server: Running, chunk: int) -> None:
    run = await server.create()
    (sim,) = run.sims
    await server.feed(sim, recording_lines("ok-concurrent2-rtx3070"), chunk=chunk)
    raw = await read(server.client.sim_results(sim.id))
    assert "NaN" not in raw.decode()
    found = SimResults.model_validate_json(raw)
    assert found.sim == (await server.client.run(run.id)).sims[0]
    assert (found.trace_id, found.gpu_config.name, found.gpu_config.core_clock_mhz) == ("demo-sm70", "SM7_QV100", 1132)
    assert [k.stats for k in found.kernels] == [block.stats() for block in blocks("ok-concurrent2-rtx3070")]
    assert [k.model_copy(update={"stats": {}}) for k in found.kernels] == await server.client.run_kernels(run.id)
    assert found.totals == found.sim.latest


async def test_run_results_hold_it_all(server: Running) -> None:
    run = await server.create("SM7_TITANV", "SM7_QV100")
    for sim, name in zip(run.sims, ("ok-demo-qv100", "ok-demo-titanv"), strict=True):
        await server.finish(sim, name)
    found = RunResults.model_validate_json(await read(server.client.run_results(run.id)))
    assert found.run.id == run.id
    assert found.trace == await server.client.trace("demo-sm70")
    assert [s.sim.gpu_config for s in found.sims] == ["SM7_QV100", "SM7_TITANV"]
    for result, name in zip(found.sims, ("ok-demo-qv100", "ok-demo-titanv"), strict=True):
        assert [k.stats for k in result.kernels] == [block.stats() for block in blocks(name)]
    assert found.comparison.configs == ["SM7_TITANV", "SM7_QV100"]
    assert len(found.comparison.rows) == 12


async def test_results_without_kernels_are_valid(server: Running) -> None:
    run = await server.create()
    found = RunResults.model_validate_json(await read(server.client.run_results(run.id)))
    assert [s.kernels for s in found.sims] == [[]]
    with pytest.raises(NotFound):
        await read(server.client.run_results("run-x"))
    with pytest.raises(NotFound):
        await read(server.client.sim_results("sim-x"))


async def test_downloads_are_conditional_and_compressed_on_demand(server: Running, http: aiohttp.ClientSession) -> None:
    run = await server.create()
    (sim,) = run.sims
    await server.finish(sim, "ok-demo-qv100")
    for path, plain in (
        (f"/api/sims/{sim.id}/log", recording_bytes("ok-demo-qv100")),
        (f"/api/runs/{run.id}/results", None),
        (f"/api/sims/{sim.id}/results", None),
        (f"/api/runs/{run.id}/kernels", None),
        (f"/api/runs/{run.id}", None),
        ("/api/traces", None),
    ):
        url = server.url + path
        async with http.get(url, headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
            body = await response.read()
            etag = response.headers["ETag"]
        assert plain is None or body == plain
        async with http.get(url, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Vary"] == "Accept-Encoding"
            packed = await response.read()
            assert len(packed) < COMPRESS_FROM or response.headers["Content-Encoding"] == "gzip"
            assert (gzip.decompress(packed) if "Content-Encoding" in response.headers else packed) == body
        async with http.get(url, headers={"If-None-Match": etag}) as response:
            assert response.status == 304
            assert await response.read() == b""
    async with http.get(f"{server.url}/api/runs/{run.id}/results") as response:
        assert response.headers["Content-Disposition"] == f'attachment; filename="{run.id}-results.json"'
        etag = response.headers["ETag"]
    await server.client.put_file(sim.id, "x", b"")
    await server.create()
    async with http.get(f"{server.url}/api/runs/{run.id}/results", headers={"If-None-Match": etag}) as response:
        assert response.status == 304


async def test_an_etag_changes_with_what_it_stands_for(server: Running, http: aiohttp.ClientSession) -> None:
    run = await server.create()
    (sim,) = run.sims
    lines = recording_lines("ok-demo-qv100")
    etags = set()
    for at in range(0, 9000, 3000):
        await server.client.post_logs(sim.id, at, lines[at : at + 3000])
        async with http.get(f"{server.url}/api/runs/{run.id}/results", headers={"Accept-Encoding": ""}) as response:
            etags.add(response.headers["ETag"])
            json.loads(await response.read())
    assert len(etags) == 3

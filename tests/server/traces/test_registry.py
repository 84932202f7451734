"""The registry with a real database and server: what stays, what moves, and what goes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cascade_server import samples
from cascade_server.contract.client import Conflict, NotFound
from cascade_server.contract.models import TraceSummary
from cascade_server.contract.states import TraceState
from tests.servers import Clock, Running, running_server

UPLOADING, READY, FAILED = TraceState.UPLOADING, TraceState.READY, TraceState.FAILED


def write_trace(folder: Path, kernels: int = 2, **metadata: Any) -> None:
    """A whole trace; metadata.json only when there is something to write in it."""
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    names = [f"kernel-{i}.traceg" for i in range(1, kernels + 1)]
    for name in names:
        (folder / "traces" / name).write_text("-kernel name = k\n-binary version = 80\n")
    (folder / "traces" / "kernelslist.g").write_text("".join(f"{name}\n" for name in names))
    if metadata:
        (folder / "metadata.json").write_text(json.dumps(metadata))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
async def server(tmp_path: Path, root: Path) -> AsyncIterator[Running]:
    async with running_server(tmp_path / "data", traces=str(root)) as running:
        yield running


async def rescan(server: Running) -> dict[str, TraceSummary]:
    """Some time later, look again."""
    server.clock.advance(2)
    await server.core.registry.scan()
    return {trace.id: trace for trace in await server.client.traces()}


async def test_a_trace_grows_from_its_first_file_until_it_is_ready(server: Running, root: Path) -> None:
    (root / "a").mkdir()
    assert "a" not in await rescan(server)
    (root / "a" / "kernel-1.traceg").write_text("12")
    first = (await rescan(server))["a"]
    assert (first.state, first.kernel_count, first.bytes) == (UPLOADING, 1, 2)
    (root / "a" / "metadata.json").write_text('{"status": "uploading"}')
    (root / "a" / "kernel-2.traceg").write_text("345")
    grown = (await rescan(server))["a"]
    assert (grown.state, grown.kernel_count, grown.bytes) == (UPLOADING, 2, 28)
    with pytest.raises(Conflict, match="Trace a is not ready but uploading"):
        await server.create(trace="a")
    write_trace(root / "a", 3, status="complete", model="m")
    ready = (await rescan(server))["a"]
    assert (ready.state, ready.kernel_count, ready.model) == (READY, 3, "m")
    assert first.created_at == grown.created_at == ready.created_at == first.updated_at
    assert ready.updated_at - first.updated_at == timedelta(seconds=4)


async def test_updated_at_moves_with_a_change_only(server: Running, root: Path) -> None:
    write_trace(root / "a", status="complete")
    first = (await rescan(server))["a"]
    assert (await rescan(server))["a"] == first
    # Of the same size, so that nothing that is shown changes.
    os.utime(root / "a" / "metadata.json", ns=(1, 1))
    changed = (await rescan(server))["a"]
    assert changed == first.model_copy(update={"updated_at": server.clock.now})
    assert (await rescan(server))["a"] == changed


async def test_a_vanished_trace_leaves_the_list_and_its_runs_stay(server: Running, root: Path) -> None:
    write_trace(root / "a", status="complete", trace_gpu_arch="sm_70", model="m")
    before = (await rescan(server))["a"]
    run = await server.create("SM7_QV100", trace="a")
    shutil.rmtree(root / "a")
    assert "a" not in await rescan(server)
    with pytest.raises(NotFound, match="no trace 'a'"):
        await server.client.trace("a")
    with pytest.raises(NotFound, match="no trace 'a'"):
        await server.create("SM7_QV100", trace="a")
    assert (await server.client.run(run.id)).trace == before
    write_trace(root / "a", status="complete", trace_gpu_arch="sm_70", model="m")
    back = (await rescan(server))["a"]
    assert (back.state, back.created_at) == (READY, before.created_at)


async def test_a_users_folder_wins_over_a_bundled_one(server: Running, root: Path) -> None:
    bundled = (await rescan(server))[samples.SAMPLE_TRACE]
    assert bundled.sample
    write_trace(root / samples.SAMPLE_TRACE, status="complete", sample=True, demo=True, model="mine")
    own = (await rescan(server))[samples.SAMPLE_TRACE]
    assert (own.model, own.sample, own.demo, own.kernel_count) == ("mine", False, False, 2)
    shutil.rmtree(root / samples.SAMPLE_TRACE)
    again = (await rescan(server))[samples.SAMPLE_TRACE]
    assert again == bundled.model_copy(update={"updated_at": server.clock.now})


async def test_nothing_bundled_without_samples(tmp_path: Path, root: Path) -> None:
    async with running_server(tmp_path / "data", traces=str(root), samples=False) as server:
        assert await rescan(server) == {}


async def test_the_demo_is_the_newest_at_a_first_start(tmp_path: Path, root: Path) -> None:
    class Ticking(Clock):
        def wall(self) -> Any:
            self.advance(1)
            return self.now

    write_trace(root / "a", status="complete")
    async with running_server(tmp_path / "data", clock=Ticking(), traces=str(root)) as server:
        assert [trace.demo for trace in await server.client.traces()] == [True, False, False]


@pytest.mark.parametrize("metadata", [{}, {"status": "complete"}])
async def test_a_restart_keeps_the_times_and_the_state(tmp_path: Path, root: Path, metadata: dict[str, Any]) -> None:
    write_trace(root / "a", **metadata)
    write_trace(root / "b", status="complete")
    (root / "b" / "traces" / "kernel-2.traceg").unlink()
    clock = Clock()
    async with running_server(tmp_path / "data", clock=clock, traces=str(root)) as server:
        before = await rescan(server)
        assert (before["a"].state, before["b"].state) == (READY, FAILED)
    clock.advance(1000)
    async with running_server(tmp_path / "data", clock=clock, traces=str(root)) as server:
        assert {trace.id: trace for trace in await server.client.traces()} == before
        assert await rescan(server) == before
        write_trace(root / "a", 3, **metadata)
        await rescan(server)
        after = (await rescan(server))["a"]
        assert (after.state, after.kernel_count, after.created_at) == (READY, 3, before["a"].created_at)
        assert after.updated_at > before["a"].updated_at


async def test_what_went_while_the_server_was_down_is_gone(tmp_path: Path, root: Path) -> None:
    write_trace(root / "a", status="complete")
    async with running_server(tmp_path / "data", traces=str(root)) as server:
        assert "a" in await rescan(server)
    shutil.rmtree(root / "a")
    async with running_server(tmp_path / "data", traces=str(root)) as server:
        assert "a" not in {trace.id for trace in await server.client.traces()}


def refusing(root: Path) -> Any:
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path) == str(root):
            raise PermissionError(13, "Permission denied")
        return real(path)

    return scandir


async def test_a_root_that_cannot_be_read_keeps_its_traces(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_trace(root / "a", status="complete")
    async with running_server(tmp_path / "data", traces=str(root)) as server:
        before = await rescan(server)
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", refusing(root))
            assert await rescan(server) == before
            assert await rescan(server) == before
            assert caplog.text.count(f"the folder of traces {root} can't be read: Permission denied") == 1
        assert await rescan(server) == before
    # Also across a restart, when nothing of it has been seen yet.
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refusing(root))
        async with running_server(tmp_path / "data", traces=str(root)) as server:
            assert {trace.id: trace for trace in await server.client.traces()} == before
            assert await rescan(server) == before
            assert caplog.text.count("can't be read") == 2
    shutil.rmtree(root / "a")
    async with running_server(tmp_path / "data", traces=str(root)) as server:
        assert before.keys() - (await rescan(server)).keys() == {"a"}


async def test_another_root_shows_other_traces(tmp_path: Path, root: Path) -> None:
    write_trace(root / "a", status="complete")
    write_trace(tmp_path / "other" / "b", status="complete")
    for folder, want in ((root, "a"), (tmp_path / "other", "b"), (root, "a")):
        async with running_server(tmp_path / "data", traces=str(folder), samples=False) as server:
            assert list(await rescan(server)) == [want]


async def test_hostile_metadata_spoils_no_other_trace(server: Running, root: Path) -> None:
    hostile = {
        "deep": '{"status": "complete", "a": ' + "[" * 300 + "]" * 300 + "}",
        "deeper": "[" * 200_000,
        "surrogate": '{"status": "complete", "model": "\\ud800"}',
        "infinite": '{"status": "complete", "a": [NaN, Infinity, 1e999], "layers": [1e999]}',
        "long": '{"status": "complete", "a": ' + "9" * 4300 + "}",
        "null": '{"status": "complete", "model": "a\\u0000b", "error": "[/x]"}',
    }
    for name, text in hostile.items():
        write_trace(root / name)
        (root / name / "metadata.json").write_text(text)
    write_trace(root / "good", status="complete")
    found = await rescan(server)
    assert found.keys() >= hostile.keys() | {"good"}
    assert found["good"].state is READY
    for name in hostile:
        assert (await server.client.trace(name)).state in (READY, UPLOADING)


async def test_two_scans_at_once_do_not_mix(server: Running, root: Path) -> None:
    write_trace(root / "a", status="complete")
    await asyncio.gather(*(server.core.registry.scan() for _ in range(5)))
    assert (await rescan(server))["a"].state is READY

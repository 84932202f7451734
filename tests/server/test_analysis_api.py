"""Comparison, accuracy, Perfetto and counters over HTTP, from recordings that were fed to a real server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp
import pytest

from cascade_server.contract.analysis import CounterKind, KernelDetail
from cascade_server.contract.client import NotFound
from cascade_server.contract.models import Heartbeat, RunDetail
from cascade_server.contract.states import SimState
from cascade_server.services import accuracy
from tests.recordings import TRUTH, recording_lines
from tests.server.test_perfetto import check_chrome_trace, slices
from tests.servers import TOKEN, Running, running_server

CONFIG = "SM86_RTX3070"
MHZ = 1132.0


def make_trace(folder: Path, real: list[dict[str, Any]] | str | None, kernels: int = 4) -> Path:
    """A trace `mine` for sm_86, with real timing if given; returns the folder that holds it."""
    inner = folder / "traces" / "mine" / "traces"
    inner.mkdir(parents=True)
    names = [f"kernel-{i + 1}.traceg" for i in range(kernels)]
    for name in names:
        (inner / name).write_text("-kernel name = k\n")
    (inner / "kernelslist.g").write_text("".join(f"{name}\n" for name in names))
    (inner.parent / "metadata.json").write_text(json.dumps({"status": "complete", "trace_gpu_arch": "sm_86"}))
    if real is not None:
        text = real if isinstance(real, str) else json.dumps({"kernels": real})
        (inner.parent / "real_timing.json").write_text(text)
    return folder / "traces"


def timing(recording: str, factor: float = 1.0) -> list[dict[str, Any]]:
    """Real timing as if hardware took `factor` times what the recording simulated."""
    return [
        {"kernel_id": i + 1, "name": t["kernel_name"], "duration_ns": t["gpu_sim_cycle"] / MHZ * 1000 * factor}
        for i, t in enumerate(TRUTH[recording]["kernels"])
    ]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    traces = make_trace(tmp_path, timing("ok-vec4-rtx3070", 1.25))
    async with running_server(tmp_path / "data", traces=str(traces)) as running:
        yield running


async def get(server: Running, path: str) -> tuple[int, bytes, Mapping[str, str]]:
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        http.get(server.url + path) as response,
    ):
        return response.status, await response.read(), response.headers


def ns(recording: str, index: int) -> float:
    cycles: int = TRUTH[recording]["kernels"][index]["gpu_sim_cycle"]
    return cycles / MHZ * 1000


async def fill(server: Running) -> RunDetail:
    """Three replicas: whole, cut by a limit in its second kernel, and failed after two kernels."""
    run = await server.create(CONFIG, trace="mine", count=3)
    whole, cut, failed = run.sims
    await server.finish(whole, "ok-vec4-rtx3070")
    await server.feed(cut, recording_lines("cut-max-cycle"))
    await server.client.heartbeat(cut.id, Heartbeat(state=SimState.FAILED, error="cut", exit_code=0))
    await server.feed(failed, recording_lines("fail-killed"))
    await server.client.heartbeat(failed.id, Heartbeat(state=SimState.FAILED, error="killed", exit_code=137))
    return run


async def test_comparison_takes_failed_sims_and_leaves_cut_kernels_out(server: Running) -> None:
    run = await fill(server)
    found = await server.client.run_comparison(run.id)
    assert (found.has_real_timing, found.configs, len(found.rows)) == (True, [CONFIG], 4)
    everywhere = [ns(name, 0) for name in ("ok-vec4-rtx3070", "cut-max-cycle", "fail-killed")]
    assert found.rows[0].sim_ns == {CONFIG: pytest.approx(median(everywhere))}
    assert found.rows[1].sim_ns == {CONFIG: pytest.approx(median([ns("ok-vec4-rtx3070", 1), ns("fail-killed", 1)]))}
    assert found.rows[3].sim_ns == {CONFIG: pytest.approx(ns("ok-vec4-rtx3070", 3))}
    assert [row.real_ns for row in found.rows] == [pytest.approx(ns("ok-vec4-rtx3070", i) * 1.25) for i in range(4)]
    assert [row.kernel_name for row in found.rows] == [t["kernel_name"] for t in TRUTH["ok-vec4-rtx3070"]["kernels"]]


async def test_comparison_of_a_run_that_has_not_begun(server: Running) -> None:
    run = await server.create("SM7_TITANV", "SM7_QV100")
    found = await server.client.run_comparison(run.id)
    assert (found.has_real_timing, found.configs, found.rows) == (False, ["SM7_TITANV", "SM7_QV100"], [])


async def test_accuracy_is_of_the_comparisons_rows(server: Running) -> None:
    run = await fill(server)
    rows = (await server.client.run_comparison(run.id)).rows
    errors = [(row.sim_ns[CONFIG] - row.real_ns) / row.real_ns * 100 for row in rows]  # type: ignore[operator]
    (found,) = (await server.client.run_accuracy(run.id)).configs
    assert (found.gpu_config, found.matched, found.unmatched) == (CONFIG, 4, [])
    assert found.mape_pct == pytest.approx(sum(map(abs, errors)) / 4)
    assert found.bias_pct == pytest.approx(sum(errors) / 4)
    assert found.bias_pct == pytest.approx(-20, abs=1)
    assert (found.under, found.over, found.within_1pct) == (4, 0, 0)


async def test_accuracy_lists_what_is_on_one_side_only(server: Running) -> None:
    run = await server.create(CONFIG, trace="mine")
    (sim,) = run.sims
    await server.feed(sim, recording_lines("cut-max-cycle"))
    (found,) = (await server.client.run_accuracy(run.id)).configs
    assert (found.matched, found.pearson) == (1, None)
    assert [(u.kernel_index, u.reason) for u in found.unmatched] == [
        (1, accuracy.CUT_SHORT),
        (2, accuracy.REAL_ONLY),
        (3, accuracy.REAL_ONLY),
    ]


@pytest.mark.parametrize("real", [None, "{", '{"kernels": 1}'])
async def test_without_real_timing_there_is_no_accuracy(tmp_path: Path, real: str | None) -> None:
    traces = make_trace(tmp_path, real)
    async with running_server(tmp_path / "data", traces=str(traces)) as server:
        run = await server.create(CONFIG, trace="mine")
        await server.finish(run.sims[0], "ok-vec4-rtx3070")
        found = await server.client.run_accuracy(run.id)
        assert (found.has_real_timing, found.configs) == (False, [])
        comparison = await server.client.run_comparison(run.id)
        assert (comparison.has_real_timing, len(comparison.rows)) == (False, 4)


async def test_real_timing_that_comes_later_is_seen(tmp_path: Path) -> None:
    traces = make_trace(tmp_path, "{")
    async with running_server(tmp_path / "data", traces=str(traces)) as server:
        run = await server.create(CONFIG, trace="mine")
        assert not (await server.client.run_comparison(run.id)).has_real_timing
        file = traces / "mine" / "real_timing.json"
        file.write_text(json.dumps({"kernels": timing("ok-vec4-rtx3070")}))
        assert len((await server.client.run_comparison(run.id)).rows) == 4
        file.unlink()
        assert (await server.client.run_comparison(run.id)).rows == []


async def test_the_perfetto_file(server: Running) -> None:
    run = await fill(server)
    status, body, headers = await get(server, f"/api/runs/{run.id}/perfetto")
    assert status == 200
    assert headers["Content-Disposition"] == f'attachment; filename="{run.id}-perfetto.json"'
    assert headers["Content-Type"].startswith("application/json")
    trace = check_chrome_trace(body.decode())
    other = trace["otherData"]
    assert (other["run_id"], other["trace_id"], other["notice"]) == (run.id, "mine", run.notice)
    assert "do NOT describe this trace" in other["notice"]
    assert other["configs"] == [{"pid": 1, "gpu_config": CONFIG, "core_clock_mhz": MHZ}]
    drawn = slices(trace)
    assert [(e["tid"], e["args"]["kernel_index"]) for e in drawn] == [
        (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)
    ]  # fmt: skip
    truth = TRUTH["ok-vec4-rtx3070"]["kernels"]
    at = 0.0
    for event, t in zip(drawn, truth, strict=False):
        assert event["ts"] == pytest.approx(at)
        assert event["dur"] == pytest.approx(t["gpu_sim_cycle"] / MHZ)
        assert event["args"]["cycles"] == t["gpu_sim_cycle"]
        assert event["args"]["instructions"] == t["gpu_sim_insn"]
        assert event["args"]["ipc"] == t["gpu_ipc"]
        at += event["dur"]
    assert drawn[0]["name"] == "vecadd(float const*, float const*, float*, int)"
    assert [e["args"]["partial"] for e in drawn] == [False] * 5 + [True, False, False]


async def test_unknown_runs_sims_and_kernels_are_not_found(server: Running) -> None:
    for call in (server.client.run_comparison("run-x"), server.client.run_accuracy("run-x")):
        with pytest.raises(NotFound, match="no run 'run-x'"):
            await call
    assert (await get(server, "/api/runs/run-x/perfetto"))[0] == 404
    with pytest.raises(NotFound, match="no sim 'sim-x'"):
        await server.client.sim_kernel("sim-x", 0)
    (sim,) = (await server.create(CONFIG, trace="mine")).sims
    await server.finish(sim, "ok-vec4-rtx3070")
    for index in ("4", "-1", "x", "1.0", "9" * 18, "9" * 5000, "%D9%A3", "0x1"):
        status, body, _ = await get(server, f"/api/sims/{sim.id}/kernels/{index}")
        assert status == 404
        assert f"{sim.id} has not finished a kernel" in json.loads(body)["detail"]
    assert (await get(server, "/api/sims/sim-x/kernels/x"))[0] == 404


async def details(server: Running, recording: str) -> list[KernelDetail]:
    (sim,) = (await server.create(CONFIG, trace="mine")).sims
    await server.feed(sim, recording_lines(recording))
    count = len(TRUTH[recording]["kernels"])
    return [await server.client.sim_kernel(sim.id, index) for index in range(count)]


@pytest.mark.parametrize("recording", ["ok-k8-rtx3070", "ok-streams2-serial-rtx3070", "cut-max-insn-rtx3070"])
async def test_kernels_that_run_alone(server: Running, recording: str) -> None:
    found = await details(server, recording)
    for index, (detail, truth) in enumerate(zip(found, TRUTH[recording]["kernels"], strict=True)):
        assert detail.stat.kernel_index == index
        assert detail.stat.stats["gpu_sim_cycle"] == truth["gpu_sim_cycle"]
        assert detail.counters.keys() == detail.stat.stats.keys()
        assert {key: c.value for key, c in detail.counters.items()} == detail.stat.stats
        assert detail.counters["gpu_tot_sim_cycle"].own == truth["gpu_sim_cycle"]
        assert detail.counters["gpu_sim_cycle"].own == truth["gpu_sim_cycle"]
        assert (detail.finished_uid, detail.finished_name) == (truth["kernel_launch_uid"], truth["kernel_name"])
        assert detail.own_cycles == truth["gpu_sim_cycle"]
        assert not detail.derived
        assert not detail.overlapped
    for key, last in found[-1].counters.items():
        if last.kind is CounterKind.CUMULATIVE and last.own is not None and "breakdown" not in key:
            assert sum(detail.counters[key].own or 0 for detail in found) == last.value


async def test_counters_of_a_stream_alone(server: Running) -> None:
    key = "Total_core_cache_stats_breakdown[GLOBAL_ACC_R][TOTAL_ACCESS]"
    counters = [detail.counters[key] for detail in await details(server, "ok-streams2-serial-rtx3070")]
    assert [(c.value, c.own) for c in counters] == [(1024, 1024), (2048, 2048), (1536, 512), (2560, 512)]
    assert {c.kind for c in counters} == {CounterKind.CUMULATIVE}


async def test_concurrent_kernels_stay_honest(server: Running) -> None:
    found = await details(server, "ok-concurrent2-rtx3070")
    assert [(d.finished_uid, d.own_cycles) for d in found] == [
        (2, 5812),
        (1, 5863),
        (4, 5759),
        (3, 6005),
        (6, 5519),
        (5, 5562),
    ]
    assert found[0].finished_name == "_Z11copy_kernelIfEvPKT_PS0_"
    assert found[0].stat.kernel_name == "_Z6vecaddPKfS0_Pfi _Z11copy_kernelIfEvPKT_PS0_"
    key = "L2_cache_stats_breakdown[GLOBAL_ACC_R][TOTAL_ACCESS]"
    for detail in found:
        assert detail.derived
        assert detail.overlapped
        assert detail.counters["gpu_tot_sim_cycle"].own is None
        assert detail.counters["gpu_sim_cycle"].own is None
        assert detail.counters[key].own is not None
    # Streams 1 and 0 in turn.
    assert sum(d.counters[key].own or 0 for d in found[0::2]) == found[4].counters[key].value
    assert sum(d.counters[key].own or 0 for d in found[1::2]) == found[5].counters[key].value


async def test_a_kernel_cut_short_before_its_name_was_printed(server: Running) -> None:
    detail = (await details(server, "cut-max-cycle"))[1]
    assert detail.stat.partial
    assert detail.stat.name_inferred
    assert (detail.finished_uid, detail.own_cycles, detail.derived, detail.overlapped) == (2, 2142, True, False)
    assert detail.counters["gpu_tot_sim_cycle"].own == 2142


async def test_a_block_lost_in_between_gives_its_share_to_nobody(server: Running) -> None:
    lines = recording_lines("ok-vec4-rtx3070")
    starts = [i for i, line in enumerate(lines) if line.startswith("kernel_name =")]
    ends = [i for i, line in enumerate(lines) if line.startswith("gpgpu_silicon_slowdown =")]
    lost = lines[: starts[1]] + lines[ends[1] + 1 :]
    (sim,) = (await server.create(CONFIG, trace="mine")).sims
    await server.feed(sim, lost)
    first, after, last = [await server.client.sim_kernel(sim.id, index) for index in range(3)]
    assert first.counters["gpgpu_n_load_insn"].own == first.counters["gpgpu_n_load_insn"].value
    assert {key for key, c in after.counters.items() if c.own is not None} == {
        key for key, c in after.counters.items() if c.kind is CounterKind.PER_KERNEL and not isinstance(c.value, str)
    }
    assert (after.finished_uid, after.own_cycles, after.overlapped) == (3, None, False)
    assert last.counters["gpu_tot_sim_cycle"].own == TRUTH["ok-vec4-rtx3070"]["kernels"][3]["gpu_sim_cycle"]

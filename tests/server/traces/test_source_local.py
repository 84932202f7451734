"""Folders of traces as users and profilers leave them, scanned one pass after another."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cascade_server import samples
from cascade_server.contract.models import KernelLaunch
from cascade_server.contract.states import TraceState
from cascade_server.traces.source_local import scan
from tests.recordings import EXPECT

from .folders import KERNEL_HEAD, STATS, Rescan, extract, only, trace_files, write

UPLOADING, READY, FAILED = TraceState.UPLOADING, TraceState.READY, TraceState.FAILED


# -- what a trace is ----------------------------------------------------------------------------


def test_the_bundled_traces() -> None:
    found = scan(samples.TRACES, bundled=True)
    demo, sample = found[samples.DEMO_TRACE], found[samples.SAMPLE_TRACE]
    assert len(found) == 2
    assert (demo.state, demo.demo, demo.sample, demo.kernel_count, demo.error) == (READY, True, False, 12, None)
    assert (sample.state, sample.demo, sample.sample, sample.kernel_count) == (READY, False, True, 24)
    assert [kernel.kernel_id for kernel in sample.kernels] == list(range(1, 25))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    detail = sample.detail(created_at=now, updated_at=now)
    assert (detail.id, detail.sample, detail.sample_set, detail.layers) == (sample.id, True, "layers", list("0123"))
    assert (detail.suggested_sim_config, detail.trace_gpu_arch, detail.source_gpu) == (
        "SM80_A100",
        "sm_80",
        "synthetic",
    )
    assert detail.metadata is not None
    assert detail.metadata["sample"] is True


def test_only_a_bundled_trace_may_call_itself_sample_or_demo(root: Path) -> None:
    shutil.copytree(samples.TRACES, root, dirs_exist_ok=True)
    found = scan(root)
    assert not any(trace.demo or trace.sample for trace in found.values())
    sample = found[samples.SAMPLE_TRACE]
    assert sample.state is FAILED
    assert "is missing" in (sample.error or "")


def test_a_whole_trace_is_ready_at_once(root: Path) -> None:
    files = trace_files(status="complete", model="m", layers=[0, 1], trace_gpu_arch="sm_80")
    write(root / "a", files | {"real_timing.json": "{}", "corrected_timeline.json": "{}"})
    trace = only(scan(root))
    assert (trace.id, trace.path, trace.state, trace.error) == ("a", root / "a", READY, None)
    assert (trace.kernel_count, trace.trace_gpu_arch) == (2, "sm_80")
    assert trace.bytes == sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert (trace.has_real_timing, trace.has_step_timeline) == (True, False)
    write(root / "a", {"kernel_mapping.json": "{}"})
    assert only(scan(root)).has_step_timeline
    assert trace.kernels[0] == KernelLaunch(
        kernel_id=1, name="_Z1kv", grid=(4, 1, 1), block=(32, 1, 1), instructions=10
    )


def test_a_ready_trace_without_statistics_has_no_kernels(root: Path) -> None:
    files = trace_files(status="complete")
    del files["traces/stats_ctx_0x1"]
    write(root / "a", files)
    trace = only(scan(root))
    assert (trace.state, trace.kernel_count, trace.kernels) == (READY, 2, ())


def test_a_list_beside_the_metadata_counts_too(root: Path) -> None:
    write(root / "a", trace_files(prefix="", status="complete"))
    trace = only(scan(root))
    assert (trace.state, trace.kernel_count, len(trace.kernels), trace.trace_gpu_arch) == (READY, 2, 2, "sm_90")


def test_the_older_statistics_file_is_read(root: Path) -> None:
    files = trace_files(status="complete")
    files["traces/stats.csv"] = files.pop("traces/stats_ctx_0x1")
    write(root / "a", files)
    assert len(only(scan(root)).kernels) == 2


@pytest.mark.parametrize("name", ["with blank", "-dash", "a[b]", "x" * 129, "é"])
def test_a_folder_that_cannot_be_an_id_is_skipped_and_logged_once(
    root: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(root / name, trace_files(status="complete"))
    write(root / "good", trace_files(status="complete"))
    for _ in range(3):
        assert list(scan(root)) == ["good"]
    assert len([record for record in caplog.records if repr(str(root / name)) in record.getMessage()]) == 1


def test_what_is_no_folder_with_files_is_no_trace(root: Path) -> None:
    write(root, {"file": "x", ".hidden/metadata.json": "{}"})
    (root / "empty" / "traces").mkdir(parents=True)
    assert scan(root) == {}


def test_a_root_that_cannot_be_read_raises(root: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        scan(root / "nowhere")


# -- states -------------------------------------------------------------------------------------


def test_a_profiler_uploads_and_completes(root: Path, rescan: Rescan) -> None:
    write(root / "a", {"traces/kernel-1.traceg": "12"})
    first = rescan()
    assert (first.state, first.error, first.kernel_count, first.bytes) == (UPLOADING, None, 1, 2)
    write(root / "a", {"metadata.json": '{"status": "uploading"}', "traces/kernel-2-ctx_0x1.traceg.xz": "345"})
    second = rescan()
    assert (second.state, second.kernel_count, second.bytes) == (UPLOADING, 2, 28)
    assert second == rescan()
    write(root / "a", {"metadata.json": '{"status": "comp'})
    half = rescan()
    assert half.state is UPLOADING
    assert "not whole yet" in (half.error or "")
    assert half.metadata is None
    write(root / "a", trace_files(kernels=3, status="complete"))
    ready = rescan()
    assert (ready.state, ready.error, ready.kernel_count) == (READY, None, 3)


def test_a_failed_profiler_says_why(root: Path, rescan: Rescan) -> None:
    write(root / "a", trace_files(status="failed", error="CUDA out of memory"))
    assert (rescan().state, rescan().error) == (FAILED, "CUDA out of memory")
    write(root / "a", {"metadata.json": '{"status": "failed"}'})
    assert "metadata.json says" in (rescan().error or "")


def test_complete_but_not_processed_says_what_to_run(root: Path, rescan: Rescan) -> None:
    write(root / "a", {"metadata.json": '{"status": "complete"}', "traces/kernelslist": "kernel-1.trace\n"})
    write(root / "a", {"traces/kernel-1.trace": "x", "traces/kernel-2.trace.xz": "x"})
    trace = rescan()
    assert (trace.state, trace.kernel_count) == (FAILED, 2)
    assert "kernelslist.g is missing beside 2 raw kernel traces." in (trace.error or "")
    assert "post-traces-processing" in (trace.error or "")
    write(root / "a", {name: text for name, text in trace_files().items() if name.startswith("traces/")})
    trace = rescan()
    assert (trace.state, trace.error, trace.kernel_count) == (READY, None, 2)


@pytest.mark.parametrize("metadata", [None, "{}", '{"status": "whatever"}', '{"status": 7}'])
def test_without_a_known_status_files_must_be_still_for_two_scans(
    root: Path, rescan: Rescan, metadata: str | None
) -> None:
    write(root / "a", trace_files() | ({} if metadata is None else {"metadata.json": metadata}))
    assert rescan().state is UPLOADING
    write(root / "a", {"traces/kernel-3.traceg": KERNEL_HEAD})
    assert rescan().state is UPLOADING
    ready = rescan()
    assert ready.state is READY
    assert ready.trace_gpu_arch == ("sm_80" if metadata is None else "sm_90")
    assert (ready.kernel_count, len(ready.kernels)) == (2, 2)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    shown = ready.detail(created_at=now, updated_at=now).metadata
    assert shown == (None if metadata is None else json.loads(metadata))


def test_a_list_that_does_not_fit_the_disk_fails_until_it_does(root: Path, rescan: Rescan) -> None:
    files = trace_files(status="complete")
    late = files.pop("traces/kernel-2.traceg")
    write(root / "a", files)
    trace = rescan()
    assert (trace.state, trace.kernel_count, trace.kernels) == (FAILED, 2, ())
    assert "kernel-2.traceg is missing" in (trace.error or "")
    write(root / "a", {"traces/kernel-2.traceg": late})
    assert rescan().state is READY


def test_a_hostile_list_fails(root: Path) -> None:
    write(root / "a", trace_files(status="complete") | {"traces/kernelslist.g": "kernel-1.traceg;touch x\n"})
    trace = only(scan(root))
    assert trace.state is FAILED
    assert "to a shell" in (trace.error or "")


# -- cases --------------------------------------------------------------------------------------


def test_case_c18_raw_and_without_metadata(root: Path, rescan: Rescan) -> None:
    extract("C18", root)
    assert rescan().state is UPLOADING
    trace = rescan()
    assert (trace.state, trace.kernel_count) == (UPLOADING, EXPECT["C18"]["raw_kernels"])
    assert "post-traces-processing" in (trace.error or "")
    write(root / "bfs", {"metadata.json": '{"status": "complete"}'})
    assert rescan().state is FAILED


def test_case_c19_contexts(root: Path, rescan: Rescan) -> None:
    extract("C19", root)
    assert rescan().state is UPLOADING
    trace = rescan()
    assert (trace.state, trace.kernel_count) == (READY, EXPECT["C19"]["kernels"])
    assert [kernel.instructions for kernel in trace.kernels] == [100, 200, 300]
    assert trace.notes[0].endswith(f"does not list: ctx_{EXPECT['C19']['other_contexts'][0]}.")


def test_case_c20_list_and_disk_disagree(root: Path, rescan: Rescan) -> None:
    extract("C20", root)
    rescan()
    trace = rescan()
    assert (trace.state, trace.kernel_count) == (FAILED, EXPECT["C20"]["listed"])
    assert all(f"{name} is missing" in (trace.error or "") for name in EXPECT["C20"]["missing"])
    for listed, there in EXPECT["C20"]["listed_with_wrong_suffix"].items():
        assert f"{listed} is missing (but {there} is there" in (trace.error or "")


@pytest.mark.parametrize(("case", "kernels"), [("C21", 2), ("C23", 4), ("C25", 4)])
def test_cases_that_are_fine(root: Path, rescan: Rescan, case: str, kernels: int) -> None:
    extract(case, root)
    rescan()
    trace = rescan()
    assert (trace.state, trace.kernel_count, trace.error) == (READY, kernels, None)


def test_case_c21_ends_in_a_copy(root: Path, rescan: Rescan) -> None:
    extract("C21", root)
    rescan()
    assert rescan().notes == (
        "kernelslist.g ends in a copy, on which simulators of before 2024 abort; Cascade leaves it out.",
    )


def test_case_c23_the_newest_code_tells_the_gpu(root: Path, rescan: Rescan) -> None:
    extract("C23", root)
    rescan()
    trace = rescan()
    assert trace.trace_gpu_arch == "sm_90"
    assert trace.notes == ("Kernels are compiled for sm_60, sm_70, sm_90; sm_90 is taken for the GPU's.",)


def test_an_arch_that_is_only_assumed_is_noted(root: Path, rescan: Rescan) -> None:
    write(root / "a", trace_files() | dict.fromkeys(("traces/kernel-1.traceg", "traces/kernel-2.traceg"), "x"))
    rescan()
    trace = rescan()
    assert (trace.state, trace.trace_gpu_arch) == (READY, "sm_90")
    assert trace.notes == ("No kernel file tells its -binary version; sm_90 is assumed.",)


def stats(instructions: int) -> str:
    return STATS.format(i=1).replace("10,10", f"{instructions},{instructions}")


@pytest.mark.parametrize(
    ("listed", "files", "want"),
    [
        # A context whose name begins with another's is another.
        (["kernel-1-ctx_0x1"], {"stats_ctx_0x12": 12, "stats_ctx_0x1": 1}, [1]),
        (["kernel-1-ctx_0x1"], {"stats_ctx_0x12": 12}, []),
        (["kernel-1-ctx_0x1"], {"stats_ctx_0x12": 12, "stats.csv": 5}, [5]),
        # Two contexts in one list, each with a kernel 1.
        (["kernel-1-ctx_0x2", "kernel-1-ctx_0x1"], {"stats_ctx_0x1": 1, "stats_ctx_0x2": 2}, [2, 1]),
        # Names without a context: of one file only it can be told.
        (["kernel-1"], {"stats_ctx_0x1": 1}, [1]),
        (["kernel-1"], {"stats_ctx_0x1.csv": 1}, [1]),
        (["kernel-1"], {"stats_ctx_0x1": 1, "stats_ctx_0x2": 2}, []),
        (["kernel-1"], {"stats_ctx_0x1": 1, "stats_ctx_0x2": 2, "stats.csv": 5}, [5]),
    ],
)
def test_statistics_are_those_of_the_listed_context(
    root: Path, listed: list[str], files: dict[str, int], want: list[int]
) -> None:
    write(root / "a", {f"{name}.traceg": KERNEL_HEAD for name in listed})
    write(root / "a", {"kernelslist.g": "".join(f"{name}.traceg\n" for name in listed)})
    write(root / "a", {name: stats(number) for name, number in files.items()})
    write(root / "a", {"metadata.json": '{"status": "complete"}'})
    trace = only(scan(root))
    assert trace.state is READY
    assert [kernel.instructions for kernel in trace.kernels] == want


def test_statistics_are_limited_to_the_listed_kernels(root: Path) -> None:
    files = trace_files(kernels=5, status="complete")
    files["traces/kernelslist.g"] = "kernel-2.traceg\nkernel-5.traceg\n"
    write(root / "a", files)
    trace = only(scan(root))
    assert [kernel.kernel_id for kernel in trace.kernels] == [2, 5]
    assert trace.kernel_count == 2

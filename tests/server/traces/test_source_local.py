"""Folders of traces as users and profilers leave them, scanned one pass after another."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server import samples
from cascade_server.contract.models import KernelLaunch
from cascade_server.contract.states import TraceState
from cascade_server.traces.source_local import TraceScan, scan
from tests.recordings import CASES, EXPECT

UPLOADING, READY, FAILED = TraceState.UPLOADING, TraceState.READY, TraceState.FAILED
KERNEL_HEAD = "-kernel name = _Z1kv\n-kernel id = 1\n-binary version = 80\n"
STATS = "kernel-{i}.trace, _Z1kv, 4, 1, 1, 4, 32, 1, 1, 32, 10,10\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def trace_files(kernels: int = 2, prefix: str = "traces/", **metadata: Any) -> dict[str, str]:
    """A whole trace; metadata.json only when there is something to write in it."""
    files = {f"{prefix}kernel-{i}.traceg": KERNEL_HEAD for i in range(1, kernels + 1)}
    files[f"{prefix}kernelslist.g"] = "MemcpyHtoD,0x1,4\n" + "".join(
        f"kernel-{i}.traceg\n" for i in range(1, kernels + 1)
    )
    files[f"{prefix}stats_ctx_0x1"] = "".join(STATS.format(i=i) for i in range(1, kernels + 1))
    if metadata:
        files["metadata.json"] = json.dumps(metadata)
    return files


def only(found: dict[str, TraceScan]) -> TraceScan:
    (trace,) = found.values()
    return trace


def extract(case: str, root: Path) -> None:
    with tarfile.open(CASES / f"{case}.tar") as tar:
        tar.extractall(root, filter="data")


class Rescan:
    """Scans one root again and again, each time with the result before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, TraceScan] = {}

    def __call__(self) -> TraceScan:
        self.seen = scan(self.root, previous=self.seen)
        return only(self.seen)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def rescan(root: Path) -> Rescan:
    return Rescan(root)


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
    assert "2 raw kernel traces and no kernelslist.g" in (trace.error or "")
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
    assert "hands it to a shell" in (trace.error or "")


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


def test_case_c20_list_and_disk_disagree(root: Path, rescan: Rescan) -> None:
    extract("C20", root)
    rescan()
    trace = rescan()
    assert (trace.state, trace.kernel_count) == (FAILED, EXPECT["C20"]["listed"])
    assert all(name in (trace.error or "") for name in EXPECT["C20"]["missing"])


@pytest.mark.parametrize(("case", "kernels"), [("C21", 2), ("C23", 4), ("C25", 4)])
def test_cases_that_are_fine(root: Path, rescan: Rescan, case: str, kernels: int) -> None:
    extract(case, root)
    rescan()
    trace = rescan()
    assert (trace.state, trace.kernel_count, trace.error) == (READY, kernels, None)


def test_statistics_are_limited_to_the_listed_kernels(root: Path) -> None:
    files = trace_files(kernels=5, status="complete")
    files["traces/kernelslist.g"] = "kernel-2.traceg\nkernel-5.traceg\n"
    write(root / "a", files)
    trace = only(scan(root))
    assert [kernel.kernel_id for kernel in trace.kernels] == [2, 5]
    assert trace.kernel_count == 2


# -- a disk that moves, and hostile folders -----------------------------------------------------


def test_an_unchanged_trace_is_taken_over_and_a_changed_one_is_read_again(root: Path) -> None:
    write(root / "a", trace_files(status="complete"))
    write(root / "b", trace_files(status="complete"))
    first = scan(root)
    write(root / "b", {"traces/stats_ctx_0x1": STATS.format(i=1)})
    second = scan(root, previous=first)
    assert second["a"] is first["a"]
    assert len(second["b"].kernels) == 1
    shutil.rmtree(root / "a")
    assert list(scan(root, previous=second)) == ["b"]


def test_links_within_the_root_are_followed(root: Path) -> None:
    write(root / "a", trace_files(status="complete"))
    (root / "b").symlink_to("a")
    (root / "c").mkdir()
    (root / "c" / "metadata.json").symlink_to(root / "a" / "metadata.json")
    (root / "c" / "traces").symlink_to("../a/traces")
    (root.parent / "alias").symlink_to(root)
    for place in (root, root.parent / "alias"):
        assert {trace.id: trace.state for trace in scan(place).values()} == dict.fromkeys("abc", READY)


@pytest.mark.parametrize("name", ["metadata.json", "traces/kernelslist.g", "traces", "traces/kernel-1.traceg"])
def test_links_out_of_the_root_are_not_followed(root: Path, tmp_path: Path, name: str) -> None:
    write(tmp_path / "elsewhere", trace_files(status="complete", model="secret"))
    write(root / "a", trace_files(status="complete"))
    whole = only(scan(root))
    path = root / "a" / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(tmp_path / "elsewhere" / name)
    trace = only(scan(root, previous={"a": whole}))
    assert trace.state is FAILED
    assert f"{Path(name).name} is a link that leads out" in (trace.error or "")
    assert "secret" not in repr(trace.metadata)


def test_other_files_that_link_out_count_as_absent(root: Path, tmp_path: Path) -> None:
    write(tmp_path, {"secret": STATS.format(i=1)})
    files = trace_files(status="complete")
    del files["traces/stats_ctx_0x1"]
    write(root / "a", files)
    for name in ("real_timing.json", "traces/stats_ctx_0x1"):
        (root / "a" / name).symlink_to(tmp_path / "secret")
    trace = only(scan(root))
    assert (trace.state, trace.has_real_timing, trace.kernels) == (READY, False, ())


def test_a_trace_that_links_out_is_skipped(root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "elsewhere", trace_files(status="complete"))
    (root / "a").symlink_to(tmp_path / "elsewhere")
    assert scan(root) == {}
    assert "leads out of the folder of traces" in caplog.text


def test_installers_may_link_the_bundled_files(root: Path) -> None:
    for path in samples.TRACES.rglob("*"):
        if path.is_file():
            link = root / path.relative_to(samples.TRACES)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    assert {trace.state for trace in scan(root, bundled=True).values()} == {READY}


def test_pipes_loops_and_dead_links_do_not_stop_a_scan(root: Path) -> None:
    write(root / "a", trace_files())
    os.mkfifo(root / "a" / "metadata.json")
    os.mkfifo(root / "a" / "traces" / "stats.csv")
    (root / "a" / "dead").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    (root / "a" / "loop").symlink_to("loop")
    (root / "a" / "up").symlink_to("..")
    assert only(scan(root, previous=scan(root))).state is READY


def test_odd_bytes_in_file_names(root: Path) -> None:
    write(root / "a", trace_files(status="complete"))
    Path(os.fsdecode(os.fsencode(root / "a" / "traces") + b"/kernel-\xff\n.trace")).touch()
    assert only(scan(root)).state is READY


def breaking(at: Callable[[str], bool], error: OSError) -> Callable[[Any], Any]:
    real = os.scandir

    def scandir(path: Any) -> Any:
        if at(str(path)):
            raise error
        return real(path)

    return scandir


@pytest.mark.parametrize("where", ["a", "a/traces"])
def test_an_unreadable_folder_fails_alone(root: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    # Permissions don't bind root, as whom tests may run.
    for name in ("a", "b"):
        write(root / name, trace_files(status="complete"))
    first = scan(root)
    with monkeypatch.context() as patch:
        refused = PermissionError(13, "Permission denied")
        patch.setattr(os, "scandir", breaking(lambda path: path == str(root / where), refused))
        second = scan(root, previous=first)
        assert scan(root, previous=second) == second
    assert (second["a"].state, second["a"].error) == (FAILED, "The folder can't be read: Permission denied.")
    assert second["b"] is first["b"]
    assert scan(root, previous=second) == first


def test_a_folder_that_vanishes_during_the_scan_is_gone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write(root / name, trace_files(status="complete"))
    gone = FileNotFoundError(2, "No such file or directory")
    monkeypatch.setattr(os, "scandir", breaking(lambda path: path == str(root / "a"), gone))
    assert list(scan(root)) == ["b"]


@pytest.mark.parametrize("victim", ["metadata.json", "traces/kernelslist.g", "traces/stats_ctx_0x1", ""])
def test_files_that_vanish_before_they_are_read(root: Path, monkeypatch: pytest.MonkeyPatch, victim: str) -> None:
    write(root / "a", trace_files(status="complete"))
    opened = os.open

    def open_too_late(path: Any, *args: Any, **options: Any) -> int:
        if not victim:
            shutil.rmtree(root / "a", ignore_errors=True)
        elif str(path) == str(root / "a" / victim):
            Path(path).unlink()
        return opened(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_too_late)
        trace = only(scan(root))
    assert (trace.state is READY) == (victim == "traces/stats_ctx_0x1")


NAMES = st.sampled_from(
    [
        "metadata.json",
        "kernelslist.g",
        "kernelslist",
        "stats.csv",
        "stats_ctx_0x1",
        "kernel-1.traceg",
        "kernel-1.trace.xz",
    ]
)
CONTENTS = st.binary(max_size=60) | st.sampled_from(
    [b'{"status": "complete"}', b'{"status": "uploading"}', b"kernel-1.traceg\n", b"kernel-1.traceg.xz\n", b""]
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(st.sampled_from(["", "traces/"]), NAMES), CONTENTS, min_size=1))
def test_any_folder_gets_a_state(tmp_path_factory: pytest.TempPathFactory, files: dict[tuple[str, str], bytes]) -> None:
    root = tmp_path_factory.mktemp("root")
    (root / "a" / "traces").mkdir(parents=True)
    for (prefix, name), content in files.items():
        (root / "a" / prefix / name).write_bytes(content)
    rescan = Rescan(root)
    rescan()
    trace = rescan()
    assert rescan() == trace
    assert (trace.state is FAILED) <= (trace.error is not None)
    assert (trace.state is READY) <= (trace.error is None and trace.kernel_count > 0)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    trace.detail(created_at=now, updated_at=now).model_dump_json()
    shutil.rmtree(root)


# -- size ---------------------------------------------------------------------------------------


def test_3000_kernels_and_60_gb_are_scanned_well_within_a_second(root: Path) -> None:
    write(root / "big", trace_files(kernels=3000, status="complete"))
    for path in (root / "big" / "traces").glob("*.traceg"):
        os.truncate(path, 20_000_000)
    start = time.perf_counter()
    trace = only(scan(root))
    assert time.perf_counter() - start < 1
    assert trace.bytes > 60e9
    assert (trace.state, trace.kernel_count, len(trace.kernels)) == (READY, 3000, 3000)

"""Links, pipes, files that vanish or can't be read, and sizes that nobody expects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server import samples
from cascade_server.contract.states import TraceState
from cascade_server.traces.folder import list_folder
from cascade_server.traces.source_local import TraceScan, scan

from .folders import STATS, Rescan, only, opened_names, trace_files, write

UPLOADING, READY, FAILED = TraceState.UPLOADING, TraceState.READY, TraceState.FAILED


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


def linked(root: Path, tmp_path: Path, name: str, **metadata: Any) -> TraceScan:
    """A trace `a` of which one file, or all for "", is a link to a place outside the root."""
    write(tmp_path / "elsewhere" / "a", trace_files(status="complete", **metadata))
    write(root / "a", trace_files(status="complete"))
    path = root / "a" / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(tmp_path / "elsewhere" / "a" / name)
    return only(scan(root))


@pytest.mark.parametrize(
    "name", ["", "traces", "traces/kernelslist.g", "traces/kernel-1.traceg", "traces/stats_ctx_0x1"]
)
def test_large_traces_may_be_links_to_elsewhere(root: Path, tmp_path: Path, name: str) -> None:
    trace = linked(root, tmp_path, name)
    assert (trace.state, trace.error, len(trace.kernels)) == (READY, None, 2)
    assert trace.bytes == sum(path.stat().st_size for path in (tmp_path / "elsewhere").rglob("*") if path.is_file())


def test_a_metadata_file_that_leads_out_is_not_shown(root: Path, tmp_path: Path) -> None:
    trace = linked(root, tmp_path, "metadata.json", model="s3cret")
    assert trace.state is FAILED
    assert trace.error == "metadata.json is a link that leads out of the trace's folder: copy the file instead."
    assert "s3cret" not in repr(trace.metadata)
    assert only(scan(root, previous={"a": trace})) == trace


@pytest.mark.parametrize("name", ["metadata.json", "traces/kernelslist.g", "traces/stats_ctx_0x1"])
def test_no_sentence_quotes_a_file_that_is_linked(root: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "passwd").write_text("kernel: s3cret\nroot:s3cret:0:0::/root:/bin/sh\nMemcpyHtoD s3cret\n")
    for inside in (False, True):
        write(root / "a", trace_files(status="complete"))
        (root / "a" / name).unlink()
        secret = shutil.copy(tmp_path / "passwd", root / "passwd") if inside else tmp_path / "passwd"
        (root / "a" / name).symlink_to(secret)
        trace = only(scan(root))
        assert (trace.state is READY) == ("stats" in name)
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert "s3cret" not in trace.detail(created_at=now, updated_at=now).model_dump_json()
        (root / "a" / name).unlink()


def test_a_file_swapped_for_a_pipe_is_not_waited_for(root: Path) -> None:
    write(root / "a", trace_files(status="complete"))
    folder = list_folder(root / "a")
    for name in ("metadata.json", "traces/kernelslist.g", "traces/kernel-1.traceg"):
        (root / "a" / name).unlink()
        os.mkfifo(root / "a" / name)
        with pytest.raises(OSError, match="no regular file"):
            folder.read(name, 10)
    with pytest.raises(OSError, match="no regular file"):
        folder.read_own("metadata.json", 10)
    assert only(scan(root)).state is UPLOADING


def test_a_list_that_cannot_be_read_is_tried_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root / "a", trace_files(status="complete"))
    opened = os.open

    def refuse(path: Any, *args: Any, **options: Any) -> int:
        if Path(path).name == "kernelslist.g":
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        refused = only(scan(root))
        assert (refused.state, refused.error) == (FAILED, "traces/kernelslist.g can't be read: Permission denied.")
    # A chmod changes neither size nor mtime.
    assert only(scan(root, previous={"a": refused})).state is READY


def test_lists_and_statistics_too_large_to_be_true(root: Path) -> None:
    write(root / "a", trace_files(status="complete"))
    os.truncate(root / "a/traces/stats_ctx_0x1", 1 << 40)
    trace = only(scan(root))
    assert (trace.state, trace.kernels[0].instructions) == (READY, 10)
    os.truncate(root / "a/traces/kernelslist.g", 1 << 40)
    trace = only(scan(root))
    assert (trace.state, trace.error) == (FAILED, "traces/kernelslist.g is larger than 32 MiB.")


def test_what_was_settled_before_a_restart_needs_no_second_look(root: Path) -> None:
    write(root / "a", trace_files())
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    assert only(scan(root, settled={"a": size})).state is READY
    assert only(scan(root, settled={"a": size - 1})).state is UPLOADING


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


def test_of_60_gb_only_the_small_files_are_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root / "big", trace_files(kernels=3000, status="complete"))
    for path in (root / "big" / "traces").glob("*.traceg"):
        os.truncate(path, 20_000_000)
    names = opened_names(monkeypatch)
    trace = only(scan(root))
    assert trace.bytes > 60e9
    assert (trace.state, trace.kernel_count, len(trace.kernels)) == (READY, 3000, 3000)
    assert sorted(names) == ["kernelslist.g", "metadata.json", "stats_ctx_0x1"]
    assert scan(root, previous={"big": trace})["big"] is trace
    assert len(names) == 3

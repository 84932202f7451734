"""real_timing.json, whole, odd and broken."""

from __future__ import annotations

import json
import logging
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cascade_server.traces import real_timing
from cascade_server.traces.real_timing import FILE_NAME, RealKernel, read_real_timing


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / FILE_NAME
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_rows_are_sorted_by_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [
        {"kernel_id": 3, "name": "_Z1cv", "duration_ns": 30},
        {"kernel_id": 1, "name": "f<int[4]>", "duration_ns": 5123.5, "more": True},
        {"kernel_id": 2.0, "name": "_Z1bv", "duration_ns": 0},
    ]
    assert read_real_timing(write(tmp_path, json.dumps({"kernels": rows, "gpu": "H200"}))) == (
        RealKernel(1, "f<int[4]>", 5123.5),
        RealKernel(2, "_Z1bv", 0.0),
        RealKernel(3, "_Z1cv", 30.0),
    )
    assert caplog.records == []


def test_no_file_is_nothing_to_complain_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_real_timing(tmp_path) is None
    assert read_real_timing(tmp_path / "gone") is None
    assert caplog.records == []


@pytest.mark.parametrize(
    "duration", ["NaN", "Infinity", "-Infinity", "-1", "-0.5", "null", '"12"', "true", "[]", "1e400", "9" * 400]
)
def test_what_is_no_duration_keeps_the_kernels_place(tmp_path: Path, duration: str) -> None:
    rows = f'{{"kernel_id": 1, "name": "a", "duration_ns": {duration}}}, {{"kernel_id": 2, "duration_ns": 7}}'
    text = f'{{"kernels": [{rows}]}}'
    assert read_real_timing(write(tmp_path, text)) == (RealKernel(1, "a", None), RealKernel(2, "", 7.0))


def test_bad_rows_are_skipped_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    good = {"kernel_id": 5, "name": "a", "duration_ns": 1}
    ids: list[Any] = [None, "1", 1.5, True, [], {}, 10**30, math.inf]
    rows: list[Any] = [
        1,
        None,
        [],
        "x",
        {},
        good,
        *({"kernel_id": i, "name": "b", "duration_ns": 2} for i in ids),
        good | {"name": "again"},
    ]
    assert read_real_timing(write(tmp_path, json.dumps({"kernels": rows}))) == (RealKernel(5, "a", 1.0),)
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert f"{len(rows) - 1} of {len(rows)} rows" in caplog.text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "Expecting value"),
        (b'{"kernels": [', "Expecting value"),
        (b"\xff\xfe\x00", "decode"),
        (b"[" * 100_000, "recursion"),
        (b"null", "no list"),
        (b"[]", "no list"),
        (b'{"kernels": {}}', "no list"),
        (b"{}", "no list"),
    ],
)
def test_a_bad_file_is_left_out_with_a_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, why: str
) -> None:
    assert read_real_timing(write(tmp_path, content)) is None
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert why in caplog.text


def test_a_huge_file_a_folder_and_a_pipe_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_timing, "MAX_BYTES", 1 << 20)
    write(tmp_path, b'{"kernels": []}' + b" " * (1 << 20))
    assert read_real_timing(tmp_path) is None
    assert "larger than 1 MiB" in caplog.text
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / FILE_NAME).mkdir()
    assert read_real_timing(tmp_path) is None
    (tmp_path / FILE_NAME).rmdir()
    os.mkfifo(tmp_path / FILE_NAME)
    assert read_real_timing(tmp_path) is None
    assert caplog.text.count("no regular file") == 2


def test_a_lone_surrogate_in_a_name_can_be_sent(tmp_path: Path) -> None:
    found = read_real_timing(write(tmp_path, '{"kernels": [{"kernel_id": 1, "name": "\\ud800", "duration_ns": 1}]}'))
    assert found == (RealKernel(1, "\ufffd", 1.0),)


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    assert read_real_timing(write(tmp_path, b'\xef\xbb\xbf{"kernels": []}')) == ()


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["kernels", "kernel_id", "name", "duration_ns"]), inner, max_size=4),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(JSON.map(json.dumps), JSON.map(lambda rows: json.dumps({"kernels": rows})), st.binary(max_size=50)))
def test_any_file_is_read_or_left_out(tmp_path: Path, content: str | bytes) -> None:
    found = read_real_timing(write(tmp_path, content))
    ids = [kernel.kernel_id for kernel in found or ()]
    assert ids == sorted(set(ids))
    assert all(k.duration_ns is None or 0 <= k.duration_ns < math.inf for k in found or ())

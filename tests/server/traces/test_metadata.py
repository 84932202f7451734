"""metadata.json as it may be found: whole, half-written, or not what it should be."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server import samples
from cascade_server.contract.models import TraceDetail
from cascade_server.contract.states import TraceState
from cascade_server.traces.metadata import MAX_BYTES, MAX_DEPTH, TraceMetadata, parse_metadata


def parsed(value: object) -> TraceMetadata:
    metadata = parse_metadata(json.dumps(value).encode())
    assert isinstance(metadata, TraceMetadata)
    return metadata


def sendable(metadata: TraceMetadata) -> None:
    """The server can answer with it, in strict JSON."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    detail = TraceDetail(id="t", state=TraceState.READY, created_at=now, updated_at=now, metadata=metadata.raw)
    json.loads(detail.model_dump_json(), parse_constant=pytest.fail)
    json.dumps(metadata.raw, allow_nan=False, ensure_ascii=False).encode()


def test_all_keys() -> None:
    raw = {
        "status": "failed",
        "error": "out of memory",
        "model": "m",
        "layers": [0, "1", 2],
        "gpu": "NVIDIA H100",
        "trace_gpu_arch": "sm_80",
        "suggested_sim_config": "SM80_A100",
        "real_gpu_config": "SM90_H100",
        "sample_sim_configs": ["SM80_A100"],
        "sample_set": "layers",
        "sample": True,
        "demo": True,
        "other": {"kept": [1.5, None]},
    }
    assert parsed(raw) == TraceMetadata(
        status="failed",
        error="out of memory",
        model="m",
        layers=("0", "1", "2"),
        gpu="NVIDIA H100",
        trace_gpu_arch="sm_80",
        suggested_sim_config="SM80_A100",
        real_gpu_config="SM90_H100",
        sample_sim_configs=("SM80_A100",),
        sample_set="layers",
        sample=True,
        demo=True,
        raw=raw,
    )


def test_nothing_given() -> None:
    assert parsed({}) == TraceMetadata()
    assert parsed({}).trace_gpu_arch == "sm_90"


def test_the_bundled_ones() -> None:
    demo, sample = (
        parse_metadata((samples.TRACES / name / "metadata.json").read_bytes())
        for name in (samples.DEMO_TRACE, samples.SAMPLE_TRACE)
    )
    assert isinstance(demo, TraceMetadata)
    assert isinstance(sample, TraceMetadata)
    assert (demo.demo, demo.sample, demo.suggested_sim_config) == (True, False, "SM7_QV100")
    assert (sample.demo, sample.sample, sample.sample_sim_configs) == (False, True, ("SM80_A100",))


def test_wrong_types_count_as_missing() -> None:
    wrong: dict[str, Any] = {
        "status": 1,
        "error": ["x"],
        "model": {},
        "layers": {"0": 1},
        "gpu": True,
        "trace_gpu_arch": None,
        "suggested_sim_config": 5,
        "sample_sim_configs": [["x"], None, True, "", "SM80_A100"],
        "sample": "true",
        "demo": 1,
    }
    assert parsed(wrong) == TraceMetadata(sample_sim_configs=("SM80_A100",), raw=wrong)
    assert parsed({"layers": 3}).layers == ("3",)
    assert parsed({"layers": "all"}).layers == ("all",)
    assert parsed({"status": " Complete\n"}).status == "complete"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b'{"status": "comp', "not valid JSON"),
        (b'{"a": "\xff"}', "not UTF-8"),
        ('{"a": "é"}'.encode()[:-3], "not UTF-8"),
        (b"\0\0\0\0", "not valid JSON"),
        (b"[1]", "no JSON object"),
        (b"null", "no JSON object"),
        (b" " * (MAX_BYTES + 1), "larger than 4 MiB"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nests deeper"),
        (b"[" * 100_000, "nests deeper"),
        (b'{"n": ' + b"9" * 5000 + b"}", "too many digits"),
        (b'{\n"a": s3cret}', "at line 2, column 6"),
        (b"root:s3cret:0:0::/root:/bin/sh\n", "not valid JSON"),
        (b'{"a": "\\s3cret"}', "not valid JSON"),
        (b'{"a": 1} s3cret', "not valid JSON"),
    ],
)
def test_what_is_no_metadata_yet_says_why(data: bytes, reason: str) -> None:
    metadata = parse_metadata(data)
    assert isinstance(metadata, str)
    assert reason in metadata
    assert "s3cret" not in metadata


def test_what_json_has_no_word_for_is_kept_as_text() -> None:
    metadata = parse_metadata(b'\xef\xbb\xbf{"a": NaN, "b": [-Infinity, 1e999], "c": "\\ud800x", "\\udfff": 1.5}')
    assert isinstance(metadata, TraceMetadata)
    assert metadata.raw == {"a": "NaN", "b": ["-Infinity", "1e999"], "c": "?x", "?": 1.5}
    sendable(metadata)


def test_the_deepest_allowed_can_be_sent() -> None:
    data = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    metadata = parse_metadata(data)
    assert isinstance(metadata, TraceMetadata)
    sendable(metadata)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
KEYS = st.sampled_from(["status", "error", "model", "layers", "gpu", "trace_gpu_arch", "sample_sim_configs", "x"])


@given(st.dictionaries(KEYS, JSON))
def test_any_object_is_read_and_can_be_sent(value: dict[str, Any]) -> None:
    metadata = parse_metadata(json.dumps(value).encode())
    assert isinstance(metadata, TraceMetadata)
    assert metadata.raw.keys() == value.keys()
    sendable(metadata)


@given(st.dictionaries(KEYS, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_unknown_keys_round_trip(value: dict[str, Any]) -> None:
    assert parsed(value).raw == value
    assert all(not isinstance(item, float) or math.isfinite(item) for item in value.values())


@given(st.binary() | st.text('{}[]":,0123eE+-.NaInfity \\u').map(str.encode))
def test_garbage_never_raises(data: bytes) -> None:
    metadata = parse_metadata(data)
    if isinstance(metadata, TraceMetadata):
        sendable(metadata)

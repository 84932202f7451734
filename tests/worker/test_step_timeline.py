"""What a simulation predicts for the steps of a real run, by hand-made examples and for any input at all."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.models import StepTimelineBody
from cascade_worker.lines import Interrupted
from cascade_worker.prediction import MAX_BYTES, Prediction, predict
from cascade_worker.step_timeline import TimelineError, build, kernel_times, lay_out, parse_timeline
from tests.recordings import recording_bytes
from tests.worker.timelines import MAPPING, QV100_MHZ, TIMELINE, demo_ns, demo_trace


def step(start: float, end: float, *kernels: tuple[str, float], **more: Any) -> dict[str, Any]:
    listed = [{"key": key, "duration_ns": duration} for key, duration in kernels]
    return {"start_ns": start, "end_ns": end, "kernels": listed, **more}


def built(steps: list[dict[str, Any]], times: dict[str, float]) -> StepTimelineBody:
    """With the keys in `times` mapped."""
    ids = {key: number for number, key in enumerate(times)}
    return build({"steps": steps}, {"kernels": ids}, {ids[key]: time for key, time in times.items()})


def durations(body: StepTimelineBody) -> list[float]:
    return [step["duration_ns"] for step in body.simulated["steps"]]


def spans(body: StepTimelineBody) -> list[tuple[float, float]]:
    return [(step["start_ns"], step["end_ns"]) for step in body.simulated["steps"]]


# -- by hand -------------------------------------------------------------------------------------


def test_all_of_it_by_hand() -> None:
    body = build(TIMELINE, MAPPING, {1: 40000.0, 12: 15000.25})
    assert body.simulated == {
        "steps": [
            {
                "index": 0,
                "kind": "prefill",
                "start_ns": 1000.0,
                "end_ns": 105999.75,
                "duration_ns": 104999.75,  # 39,999.5 beside its kernels, and these
                "requests": ["r0"],
                "kernels": [
                    {"key": "gemm<128>", "duration_ns": 40000.0},
                    {"key": "softmax", "duration_ns": 15000.25},
                    {"key": "memset", "duration_ns": 10000},
                ],
            },
            {
                "index": 1,
                "kind": "decode",
                "start_ns": 125999.75,
                "end_ns": 170999.75,
                "duration_ns": 45000.0,
                "requests": ["r0", "r1"],
                "kernels": [{"key": "gemm<128>", "duration_ns": 40000.0}],
            },
            {
                "index": 2,
                "kind": "decode",
                "start_ns": 170999.75,
                "end_ns": 200999.75,
                "duration_ns": 30000.0,
                "requests": ["r1"],
                "kernels": [],
            },
        ],
        "summary": {
            "per_kind": {"prefill": {"steps": 1, "mean_ns": 104999.75}, "decode": {"steps": 2, "mean_ns": 37500.0}},
            "simulation": {"coverage": pytest.approx(75000.5 / 85000.5), "kernels_mapped": 3, "kernels_total": 4},
        },
    }
    assert body.compare == {
        "per_step": [
            {
                "index": 0,
                "kind": "prefill",
                "real_ns": 100000.0,
                "sim_ns": 104999.75,
                "error_pct": pytest.approx(4.99975),
            },
            {"index": 1, "kind": "decode", "real_ns": 30000.0, "sim_ns": 45000.0, "error_pct": 50.0},
            {"index": 2, "kind": "decode", "real_ns": 30000.0, "sim_ns": 30000.0, "error_pct": 0.0},
        ],
        "per_request": [
            {"request": "r0", "real_ns": 150000.0, "sim_ns": 169999.75, "error_pct": pytest.approx(13.3331667)},
            {"request": "r1", "real_ns": 60000.0, "sim_ns": 75000.0, "error_pct": 25.0},
        ],
        "mape": {"steps": pytest.approx((4.99975 + 50) / 3), "requests": pytest.approx((13.3331667 + 25) / 2)},
    }


def test_kernels_that_ran_at_the_same_time_still_do() -> None:
    body = built([step(0, 100, ("a", 80), ("b", 120))], {"a": 40.0, "b": 60.0})
    assert durations(body) == [50.0]


def test_steps_at_the_same_time_start_after_what_had_ended() -> None:
    steps = [step(0, 10, ("a", 10)), step(20, 100), step(30, 50, ("a", 20)), step(60, 70)]
    body = built(steps, {"a": 30.0})
    # The third overlaps the second and follows the first; the fourth follows the third.
    assert spans(body) == [(0, 30), (40, 120), (50, 80), (90, 100)]


def test_the_order_of_the_file_is_kept() -> None:
    body = built([step(20, 30, index=7), step(0, 10, ("a", 10), index=3)], {"a": 15.0})
    assert spans(body) == [(25, 35), (0, 15)]
    assert [row["index"] for row in body.simulated["steps"]] == [7, 3]


def test_times_since_1970_lose_nothing() -> None:
    start = 1_764_579_600_123_456_789
    body = built([step(start, start + 1001, ("a", 1)), step(start + 1003, start + 1010)], {"a": 2.0})
    assert durations(body) == [1002.0, 7.0]
    assert spans(body) == [(start, start + 1002), (start + 1004, start + 1011)]
    assert body.compare is not None
    assert [row["real_ns"] for row in body.compare["per_step"]] == [1001.0, 7.0]


def test_an_error_against_nothing_is_none() -> None:
    body = built([step(5, 5, ("a", 0), requests=["r"])], {"a": 10.0})
    assert durations(body) == [10.0]
    assert body.compare == {
        "per_step": [{"index": 0, "kind": "unknown", "real_ns": 0.0, "sim_ns": 10.0, "error_pct": None}],
        "per_request": [{"request": "r", "real_ns": 0.0, "sim_ns": 10.0, "error_pct": None}],
        "mape": {"steps": None, "requests": None},
    }
    assert body.simulated["summary"]["simulation"] == {"coverage": 0.0, "kernels_mapped": 1, "kernels_total": 1}


def test_uids_count_the_listed_kernels() -> None:
    times = kernel_times([7, None, 9, 7], [(1, 1000), (2, 5), (3, 2000), (4, 3000), (99, 1)], 1000.0)
    assert times == {7: 2000.0, 9: 2000.0}


@pytest.mark.parametrize("cycles", [[(1, 10), (None, 10)], [(1, 10), (1, 10)]])
def test_a_kernel_among_others_has_no_time_of_its_own(cycles: list[tuple[int | None, int | None]]) -> None:
    with pytest.raises(TimelineError, match="ran at the same time"):
        kernel_times([1, 2], cycles, 1000.0)


@pytest.mark.parametrize(
    ("timeline", "sentence"),
    [
        ([], 'corrected_timeline.json holds no list "steps" with steps in it'),
        ({"steps": []}, 'corrected_timeline.json holds no list "steps" with steps in it'),
        ({"steps": [3]}, "steps[0] in corrected_timeline.json is no object"),
        ({"steps": [{"start_ns": 1}]}, "steps[0].end_ns in corrected_timeline.json is missing"),
        ({"steps": [step(2, 1)]}, "steps[0] in corrected_timeline.json ends before it starts"),
        ({"steps": [step(1, math.nan)]}, "steps[0].end_ns in corrected_timeline.json is no time in ns"),
        ({"steps": [step(1, 10**400)]}, "steps[0].end_ns in corrected_timeline.json is no time in ns"),
        ({"steps": [step(True, 2)]}, "steps[0].start_ns in corrected_timeline.json is no time in ns"),
        ({"steps": [step(0, 1, ("a", -1))]}, "steps[0].kernels[0].duration_ns in corrected_timeline.json is negative"),
        ({"steps": [{**step(0, 1), "kernels": {}}]}, "steps[0].kernels in corrected_timeline.json is no list"),
        ({"steps": [{**step(0, 1), "kernels": [{}]}]}, "steps[0].kernels[0] in corrected_timeline.json has no key"),
        (
            {"steps": [step(0, 1, requests=[None])]},
            "steps[0].requests in corrected_timeline.json holds something that is no request's name",
        ),
        ({"steps": [step(0, 1, index="x")]}, "steps[0].index in corrected_timeline.json is no whole number"),
        ({"steps": [step(0, 1, kind=1)]}, "steps[0].kind in corrected_timeline.json is no text"),
    ],
)
def test_a_wrong_timeline_gets_a_sentence(timeline: object, sentence: str) -> None:
    with pytest.raises(TimelineError) as raised:
        build(timeline, MAPPING, {})
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        (None, 'kernel_mapping.json holds no object "kernels"'),
        ({"kernels": []}, 'kernel_mapping.json holds no object "kernels"'),
        ({"kernels": {"a\n": "x"}}, "kernel_mapping.json maps 'a\\n' to no kernel_id (a whole number)"),
    ],
)
def test_a_wrong_mapping_gets_a_sentence(mapping: object, sentence: str) -> None:
    with pytest.raises(TimelineError) as raised:
        build(TIMELINE, mapping, {})
    assert str(raised.value) == sentence


# -- for any input -------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
NS = st.one_of(st.integers(0, 10**9), st.integers(0, 2**62), st.floats(0, 2.0**62))
KEY = st.sampled_from(["a", "b", "c", "\udcff"])
KERNEL = st.fixed_dictionaries({"key": KEY, "duration_ns": NS})
STEP = st.builds(
    lambda ends, more: {"start_ns": min(ends), "end_ns": max(ends), **more},
    st.tuples(NS, NS),
    st.fixed_dictionaries(
        {"kernels": st.lists(KERNEL, max_size=4)},
        optional={
            "index": st.integers(-5, 5),
            "kind": st.sampled_from(["prefill", "decode", "\ud800"]),
            "requests": st.lists(st.sampled_from(["r0", "r1", 2, "\ud800"]), max_size=3),
        },
    ),
)


def damaged(value: Any) -> st.SearchStrategy[Any]:
    """`value` with one of its parts replaced by anything."""
    if isinstance(value, dict) and value:
        return st.sampled_from(sorted(value)).flatmap(
            lambda key: (damaged(value[key]) | JSON).map(lambda part: {**value, key: part})
        )
    if isinstance(value, list) and value:
        return st.integers(0, len(value) - 1).flatmap(
            lambda at: (damaged(value[at]) | JSON).map(lambda part: [*value[:at], part, *value[at + 1 :]])
        )
    return JSON


def strict(body: StepTimelineBody) -> None:
    """No NaN, no infinity, no lone surrogate: what any JSON reader takes."""
    json.dumps(body.model_dump(), allow_nan=False, ensure_ascii=False).encode()
    assert StepTimelineBody.model_validate_json(body.model_dump_json()) == body


@given(
    timeline=st.fixed_dictionaries({"steps": st.lists(STEP, min_size=1, max_size=5)}),
    mapping=st.dictionaries(KEY, st.integers(0, 3), max_size=3),
    times=st.dictionaries(st.integers(0, 3), st.floats(0, 2.0**62), max_size=4),
)
def test_whatever_the_times_what_is_sent_is_sound(
    timeline: dict[str, Any], mapping: dict[str, int], times: dict[int, float]
) -> None:
    body = build(timeline, {"kernels": mapping}, times)
    strict(body)
    assert len(body.simulated["steps"]) == len(timeline["steps"])
    for row in body.simulated["steps"]:
        assert row["end_ns"] >= row["start_ns"] >= min(step["start_ns"] for step in timeline["steps"])
        assert row["duration_ns"] >= 0
    simulation = body.simulated["summary"]["simulation"]
    assert 0 <= simulation["coverage"] <= 1
    assert 0 <= simulation["kernels_mapped"] <= simulation["kernels_total"]
    assert sum(kind["steps"] for kind in body.simulated["summary"]["per_kind"].values()) == len(timeline["steps"])


@given(timeline=damaged(TIMELINE), mapping=damaged(MAPPING))
def test_half_files_give_a_sentence_or_a_sound_body(timeline: object, mapping: object) -> None:
    try:
        strict(build(timeline, mapping, {1: 5.0, 12: 7.0}))
    except TimelineError as error:
        said = str(error)
        assert said.isprintable()
        assert "corrected_timeline.json" in said or "kernel_mapping.json" in said


@given(steps=st.lists(STEP, min_size=1, max_size=6))
def test_where_nothing_is_mapped_nothing_changes(steps: list[dict[str, Any]]) -> None:
    body = build({"steps": steps}, {"kernels": {}}, {})
    assert body.compare is not None
    assert all(row["error_pct"] in (0.0, None) for row in body.compare["per_step"])
    for row, real in zip(body.simulated["steps"], steps, strict=True):
        assert row["start_ns"] == pytest.approx(real["start_ns"], rel=1e-9, abs=1)
        assert row["duration_ns"] == float(real["end_ns"] - real["start_ns"])


@given(
    parts=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1e6)), min_size=1, max_size=8)
)
def test_pauses_between_steps_stay(parts: list[tuple[int, int, float]]) -> None:
    steps, at = [], 0
    for pause, length, _ in parts:
        steps.append(step(at + pause, at + pause + length))
        at += pause + length
    laid = lay_out(parse_timeline({"steps": steps}), [predicted for _, _, predicted in parts])
    for before, after, (pause, _, _) in zip(laid, laid[1:], parts[1:], strict=False):
        assert after.start - before.end == pytest.approx(pause, abs=1e-3)


@given(factor=st.floats(0.01, 100), lengths=st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
def test_steps_that_are_all_kernels_scale_with_them(factor: float, lengths: list[int]) -> None:
    steps, at = [], 0
    for number, length in enumerate(lengths):
        steps.append(step(at, at + length, (str(number), length), requests=["r"]))
        at += length
    body = built(steps, {str(number): length * factor for number, length in enumerate(lengths)})
    assert durations(body) == pytest.approx([length * factor for length in lengths])
    assert body.compare is not None
    error = pytest.approx(abs(factor - 1) * 100, abs=1e-6)
    assert body.compare["mape"] == {"steps": error, "requests": error}


# -- from a trace's files and a log --------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "simulator.log"
    path.write_bytes(recording_bytes("ok-demo-qv100"))
    return path


def predicted(trace: Path, log: Path, clock: float | None = QV100_MHZ) -> Prediction:
    return predict(trace, log, log.stat().st_size, clock)


def test_the_demo_trace(tmp_path: Path, log: Path) -> None:
    found = predicted(demo_trace(tmp_path / "demo"), log)
    assert found.remarks == ()
    assert found.body == build(TIMELINE, MAPPING, {1: demo_ns(1), 12: demo_ns(12)})


def test_a_trace_without_the_files_gets_no_word(tmp_path: Path, log: Path) -> None:
    assert predicted(demo_trace(tmp_path / "demo", timeline=None, mapping=None), log) == Prediction()


@pytest.mark.parametrize(
    ("files", "remark"),
    [
        ({"timeline": None}, "corrected_timeline.json is missing beside kernel_mapping.json."),
        ({"mapping": None}, "kernel_mapping.json is missing beside corrected_timeline.json."),
        ({"timeline": '{"steps": [{"ind'}, "corrected_timeline.json is no JSON, or only a part of it"),
        ({"mapping": "[" * 200_000}, "kernel_mapping.json is nested too deeply."),
        ({"mapping": " " * (MAX_BYTES + 1)}, "kernel_mapping.json is larger than 32 MiB."),
        ({"timeline": {"steps": [step(1, 0)]}}, "steps[0] in corrected_timeline.json ends before it starts."),
    ],
)
def test_half_files_get_a_remark(tmp_path: Path, log: Path, files: dict[str, Any], remark: str) -> None:
    found = predicted(demo_trace(tmp_path / "demo", **files), log)
    assert found.body is None
    (said,) = found.remarks
    assert said.startswith("No step timeline was made: " + remark.removesuffix("."))
    assert said.isprintable()


def test_a_pipe_is_not_waited_for(tmp_path: Path, log: Path) -> None:
    trace = demo_trace(tmp_path / "demo", mapping=None)
    os.mkfifo(trace / "kernel_mapping.json")
    assert predicted(trace, log).remarks == (
        "No step timeline was made: kernel_mapping.json can't be read (it is no regular file).",
    )


def test_without_a_clock_there_is_no_time(tmp_path: Path, log: Path) -> None:
    assert predicted(demo_trace(tmp_path / "demo"), log, None).remarks == (
        "No step timeline was made: the core clock of the GPU config is not known.",
    )


def test_kernels_at_the_same_time_get_a_remark(tmp_path: Path, log: Path) -> None:
    log.write_bytes(recording_bytes("ok-concurrent2-rtx3070"))
    (remark,) = predicted(demo_trace(tmp_path / "demo"), log).remarks
    assert "kernels of this sim ran at the same time" in remark


def test_a_mapping_to_nothing_is_said(tmp_path: Path, log: Path) -> None:
    trace = demo_trace(tmp_path / "demo", mapping={"kernels": {"gemm<128>": 13, "softmax": 14, "x": 15, "y": 16}})
    found = predicted(trace, log)
    assert found.body is not None
    assert found.body.simulated["summary"]["simulation"]["kernels_mapped"] == 0
    assert found.remarks == (
        "The step timeline keeps the real times of some kernels, since kernel_mapping.json maps them to kernels that "
        "this sim has no time of: 'gemm<128>' to 13, 'softmax' to 14, 'x' to 15 and 1 more.",
        "The step timeline predicts nothing: kernel_mapping.json maps no kernel of corrected_timeline.json to one that "
        "was simulated, so all its times are the real ones.",
    )


def test_it_can_be_stopped(tmp_path: Path, log: Path) -> None:
    with pytest.raises(Interrupted):
        predict(demo_trace(tmp_path / "demo"), log, log.stat().st_size, QV100_MHZ, lambda: True)

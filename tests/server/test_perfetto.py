"""The Chrome trace against its format, strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.models import KernelStat, RunDetail
from cascade_server.services.perfetto import LISTED, chrome_trace, readable_name
from tests.server.kernels import make_kernel, make_kernels, make_run

METADATA: dict[str, dict[str, type]] = {
    "process_name": {"name": str},
    "process_sort_index": {"sort_index": int},
    "thread_name": {"name": str},
    "thread_sort_index": {"sort_index": int},
}


def refuse(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), pairs
    return found


def check_chrome_trace(text: str) -> dict[str, Any]:
    """Fail on anything that the Trace Event Format (JSON object form) does not allow, or that viewers stumble over.

    Strict JSON in ASCII without repeated keys; only complete (`X`) and metadata (`M`) events, with all their fields
    and of the right types; every process and thread named once, before its slices; in each thread slices in order
    that don't overlap, neither as floats nor when each time is cut to whole ns.
    """
    assert text.isascii()
    trace: dict[str, Any] = json.loads(text, parse_constant=refuse, object_pairs_hook=no_repeats)
    assert trace.keys() == {"displayTimeUnit", "traceEvents", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    named: set[tuple[Any, ...]] = set()
    ends: dict[tuple[int, int], tuple[float, int]] = {}
    for event in trace["traceEvents"]:
        assert event.keys() == {"ph", "name", "pid", "tid", "ts", "args"} | (
            {"cat", "dur"} if event["ph"] == "X" else set()
        )
        for name in ("pid", "tid"):
            assert type(event[name]) is int
            assert event[name] > 0
        thread = (event["pid"], event["tid"])
        if event["ph"] == "M":
            (key, kind), *rest = METADATA[event["name"]].items()
            assert not rest
            assert event["args"].keys() == {key}
            assert type(event["args"][key]) is kind
            place = (event["name"], event["pid"], event["tid"] if event["name"].startswith("thread") else None)
            assert place not in named
            named.add(place)
        else:
            assert event["ph"] == "X"
            check_slice(event)
            for needed in ("process_name", "process_sort_index"):
                assert (needed, event["pid"], None) in named
            for needed in ("thread_name", "thread_sort_index"):
                assert (needed, *thread) in named
            end, end_ns = ends.get(thread, (0.0, 0))
            assert event["ts"] >= end
            assert int(event["ts"] * 1000) >= end_ns
            ends[thread] = event["ts"] + event["dur"], int(event["ts"] * 1000) + int(event["dur"] * 1000)
    return trace


def check_slice(event: dict[str, Any]) -> None:
    assert type(event["name"]) is str
    assert event["name"]
    for name in ("ts", "dur"):
        assert type(event[name]) in (int, float)
        assert math.isfinite(event[name])
        assert event[name] >= 0
    args = event["args"]
    assert args.keys() <= {"cycles", "instructions", "ipc", "kernel_index", "mangled_name", "partial"}
    assert args.keys() >= {"kernel_index", "mangled_name", "partial"}
    assert type(args["partial"]) is bool
    assert all(value is not None for value in args.values())


def trace_of(run: RunDetail, kernels: Iterable[KernelStat], clocks: dict[str, float] | None = None) -> dict[str, Any]:
    return check_chrome_trace("".join(chrome_trace(run, clocks or {}, kernels)))


def slices(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_configs_are_processes_and_replicas_threads() -> None:
    run = make_run(("B", 2), ("A", 1))
    kernels = [*make_kernels("sim-A-0", [1.5]), *make_kernels("sim-B-0", [10.0, 20.0]), *make_kernels("sim-B-1", [3.0])]
    trace = trace_of(run, kernels, {"A": 1132.0, "B": 1410.0})
    assert [(e["pid"], e["tid"], e["ts"], e["dur"]) for e in slices(trace)] == [
        (2, 1, 0, 0.0015),
        (1, 1, 0, 0.01),
        (1, 1, 0.01, 0.02),
        (1, 2, 0, 0.003),
    ]
    names = {
        (e["name"], e["pid"], e["tid"]): next(iter(e["args"].values())) for e in trace["traceEvents"] if e["ph"] == "M"
    }
    assert names == {
        ("process_name", 1, 1): "B",
        ("process_sort_index", 1, 1): 1,
        ("process_name", 2, 1): "A",
        ("process_sort_index", 2, 1): 2,
        ("thread_name", 1, 1): "replica 0 (sim-B-0)",
        ("thread_sort_index", 1, 1): 0,
        ("thread_name", 1, 2): "replica 1 (sim-B-1)",
        ("thread_sort_index", 1, 2): 1,
        ("thread_name", 2, 1): "replica 0 (sim-A-0)",
        ("thread_sort_index", 2, 1): 0,
    }
    assert trace["otherData"] == {
        "run_id": "run-1",
        "trace_id": "t",
        "notice": None,
        "layout": "Kernels are laid end to end by their simulated time; gaps between kernels are not simulated.",
        "configs": [
            {"pid": 1, "gpu_config": "B", "core_clock_mhz": 1410.0},
            {"pid": 2, "gpu_config": "A", "core_clock_mhz": 1132.0},
        ],
        "kernels_without_time": {"count": 0, "first": []},
    }


def test_a_slice_tells_its_kernel() -> None:
    kernel = make_kernel(
        "sim-A-0",
        0,
        5000.0,
        "_Z13reduce_kernelILi128EEvPKfPf",
        gpu_sim_cycle=5660,
        gpu_sim_insn=10,
        gpu_ipc=0.5,
        partial=True,
    )
    (event,) = slices(trace_of(make_run(("A", 1)), [kernel]))
    assert event["name"] == "void reduce_kernel<128>(float const*, float*)"
    assert event["dur"] == 5.0
    assert event["args"] == {
        "cycles": 5660,
        "instructions": 10,
        "ipc": 0.5,
        "kernel_index": 0,
        "mangled_name": "_Z13reduce_kernelILi128EEvPKfPf",
        "partial": True,
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("_Z6vecaddPKfS0_Pfi", "vecadd(float const*, float const*, float*, int)"),
        ("_Znonsense<[", "_Znonsense<["),
        ("f<int[4]>", "f<int[4]>"),
        ("_Z1av _Z1bv", "a() + b()"),
        ("not mangled", "not mangled"),
        ("_Z" + "a" * 5000, "_Z" + "a" * 5000),
        ("_Z1a\0v", "_Z1a\0v"),
        ("", ""),
    ],
)
def test_names_are_readable(name: str, shown: str) -> None:
    assert readable_name(name) == shown


def test_a_block_without_a_name_still_has_one() -> None:
    (event,) = slices(
        trace_of(make_run(("A", 1)), [KernelStat(sim_id="sim-A-0", kernel_index=3, kernel_name="", sim_time_ns=1)])
    )
    assert event["name"] == "kernel 3 (no name printed)"
    assert event["args"] == {"kernel_index": 3, "mangled_name": "", "partial": False}


def test_kernels_without_a_time_are_counted_not_drawn() -> None:
    times = [1.0, None, -5.0, math.inf, math.nan, 2.0, 1e300]
    trace = trace_of(make_run(("A", 1)), make_kernels("sim-A-0", times))
    assert [(e["args"]["kernel_index"], e["ts"], e["dur"]) for e in slices(trace)] == [(0, 0, 0.001), (5, 0.001, 0.002)]
    assert trace["otherData"]["kernels_without_time"] == {
        "count": 5,
        "first": [{"sim_id": "sim-A-0", "kernel_index": i} for i in (1, 2, 3, 4, 6)],
    }
    many = trace_of(make_run(("A", 1)), make_kernels("sim-A-0", [None] * 300))["otherData"]["kernels_without_time"]
    assert (many["count"], len(many["first"])) == (300, LISTED)


def test_a_run_without_kernels_is_a_trace() -> None:
    assert slices(trace_of(make_run(("A", 3)), [])) == []


def test_it_is_made_as_it_is_read() -> None:
    drawn: list[int] = []

    def kernels() -> Iterable[KernelStat]:
        for kernel in make_kernels("sim-A-0", [1.0] * 50):
            drawn.append(kernel.kernel_index)
            yield kernel

    pieces = chrome_trace(make_run(("A", 1)), {}, kernels())
    while not drawn:
        next(pieces)
    assert drawn == [0]


def test_many_kernels_end_where_their_sum_does() -> None:
    times = [5000.1 + i % 7 / 3 for i in range(20_000)]
    last = slices(trace_of(make_run(("A", 1)), make_kernels("sim-A-0", times)))[-1]
    assert last["ts"] + last["dur"] == pytest.approx(math.fsum(times) / 1000, rel=1e-12)


TIME = st.one_of(
    st.none(),
    st.floats(),
    st.floats(0, 1e9),
    st.integers(0, 10**7).map(float),
    st.builds(lambda cycles, mhz: cycles / mhz * 1000, st.integers(0, 10**8), st.sampled_from([1132.0, 1410.0, 837.0])),
)


@given(
    st.lists(st.lists(st.tuples(TIME, st.text(), st.floats()), max_size=12), min_size=1, max_size=3),
    st.text(),
)
def test_any_kernels_make_a_trace(sims: list[list[tuple[float | None, str, float]]], notice: str) -> None:
    run = make_run(("A", len(sims))).model_copy(update={"notice": notice})
    kernels = [
        make_kernel(f"sim-A-{replica}", index, time, name, gpu_ipc=ipc)
        for replica, rows in enumerate(sims)
        for index, (time, name, ipc) in enumerate(rows)
    ]
    trace = trace_of(run, kernels)
    assert len(slices(trace)) + trace["otherData"]["kernels_without_time"]["count"] == len(kernels)
    for event in slices(trace):
        kernel = next(
            k
            for k in kernels
            if (k.sim_id, k.kernel_index) == (f"sim-A-{event['tid'] - 1}", event["args"]["kernel_index"])
        )
        assert kernel.sim_time_ns is not None
        assert event["dur"] == kernel.sim_time_ns / 1000
    assert trace["otherData"]["notice"] == notice

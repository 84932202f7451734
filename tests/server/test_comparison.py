"""Kernels side by side."""

from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.models import Comparison
from cascade_server.services.comparison import compare
from cascade_server.traces.real_timing import RealKernel
from tests.server.kernels import make_kernel, make_kernels, make_run


def test_the_median_is_over_the_replicas_that_finished_the_kernel() -> None:
    run = make_run(("B", 3), ("A", 1))
    kernels = [
        *make_kernels("sim-A-0", [5.0]),
        *make_kernels("sim-B-0", [10.0, 20.0, 30.0]),
        *make_kernels("sim-B-1", [12.0, 26.0]),
        *make_kernels("sim-B-2", [99.0]),
    ]
    found = compare(run, kernels, None)
    assert (found.has_real_timing, found.configs) == (False, ["B", "A"])
    assert [row.sim_ns for row in found.rows] == [{"B": 12.0, "A": 5.0}, {"B": 23.0, "A": None}, {"B": 30.0, "A": None}]
    assert [row.kernel_index for row in found.rows] == [0, 1, 2]
    assert all(row.real_ns is None for row in found.rows)


def test_configs_come_in_entry_order_without_repeats() -> None:
    run = make_run(("C", 1), ("A", 1), ("C", 2), ("B", 1))
    assert compare(run, [], None) == Comparison(has_real_timing=False, configs=["C", "A", "B"], rows=[])
    kernels = [*make_kernels("sim-C-0", [1.0]), *make_kernels("sim-C-1", [2.0]), *make_kernels("sim-C-2", [9.0])]
    assert compare(run, kernels, None).rows[0].sim_ns == {"C": 2.0, "A": None, "B": None}


def test_a_kernel_cut_short_is_in_no_median() -> None:
    run = make_run(("A", 2))
    kernels = [
        make_kernel("sim-A-0", 0, 10.0),
        make_kernel("sim-A-0", 1, 3.0, partial=True),
        make_kernel("sim-A-1", 0, 20.0),
        make_kernel("sim-A-1", 1, 8.0, name="whole"),
        make_kernel("sim-A-1", 2, 4.0, name="cut", partial=True),
    ]
    rows = compare(run, kernels, None).rows
    assert [(row.kernel_name, row.sim_ns["A"]) for row in rows] == [("_Z1av", 15.0), ("whole", 8.0), ("cut", None)]


def test_names_are_real_timings_or_the_first_sims() -> None:
    run = make_run(("B", 1), ("A", 2))
    kernels = [
        make_kernel("sim-A-0", 0, 1.0, name="first"),
        make_kernel("sim-A-1", 0, 1.0, name="second"),
        make_kernel("sim-A-1", 1, 1.0, name="second"),
        make_kernel("sim-B-0", 0, 1.0, name="third"),
        make_kernel("sim-B-0", 1, 1.0, name="third"),
        make_kernel("sim-B-0", 2, 1.0, name="third<a[1]>"),
    ]
    assert [row.kernel_name for row in compare(run, kernels, None).rows] == ["first", "second", "third<a[1]>"]
    real = [RealKernel(1, "real", 9.0), RealKernel(7, "", None)]
    assert [row.kernel_name for row in compare(run, kernels, real).rows] == ["real", "second", "third<a[1]>"]


def test_rows_go_to_the_longest() -> None:
    run = make_run(("A", 1))
    real = [RealKernel(i, f"r{i}", float(i)) for i in (2, 4, 6)]
    found = compare(run, make_kernels("sim-A-0", [1.0]), real)
    assert found.has_real_timing
    assert [(r.kernel_index, r.kernel_name, r.real_ns, r.sim_ns["A"]) for r in found.rows] == [
        (0, "r2", 2.0, 1.0),
        (1, "r4", 4.0, None),
        (2, "r6", 6.0, None),
    ]
    found = compare(run, make_kernels("sim-A-0", [1.0, 2.0]), real[:1])
    assert [(r.real_ns, r.sim_ns["A"]) for r in found.rows] == [(2.0, 1.0), (None, 2.0)]
    assert compare(run, [], []) == Comparison(has_real_timing=True, configs=["A"], rows=[])


def test_a_kernel_without_a_time_has_none() -> None:
    rows = compare(make_run(("A", 1)), make_kernels("sim-A-0", [None, 0.0]), None).rows
    assert [row.sim_ns["A"] for row in rows] == [None, 0.0]


TIMES = st.lists(st.one_of(st.none(), st.floats(0, 1e12)), max_size=5)


@given(st.lists(TIMES, min_size=1, max_size=4), st.lists(st.floats(0, 1e12), max_size=6))
def test_any_replicas_give_rows_of_their_medians(replicas: list[list[float | None]], real_ns: list[float]) -> None:
    run = make_run(("A", len(replicas)))
    kernels = [k for i, times in enumerate(replicas) for k in make_kernels(f"sim-A-{i}", times)]
    found = compare(run, kernels, [RealKernel(i, "r", ns) for i, ns in enumerate(real_ns)])
    assert len(found.rows) == max(len(real_ns), *(len(times) for times in replicas))
    for index, row in enumerate(found.rows):
        times = [t[index] for t in replicas if index < len(t)]
        known = [time for time in times if time is not None]
        assert row.sim_ns == {"A": median(known) if known else None}
        assert row.real_ns == (real_ns[index] if index < len(real_ns) else None)
    assert Comparison.model_validate_json(found.model_dump_json()) == found

"""Accuracy against hardware: the published figures, and every reason for a kernel to be left out."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.analysis import RunAccuracy
from cascade_server.services import accuracy
from cascade_server.services.accuracy import assess, pearson
from cascade_server.traces.real_timing import RealKernel
from tests.server.kernels import make_kernel, make_kernels, make_run

DATA = Path(__file__).parent.parent / "data"


def test_the_published_figures_of_the_h200_come_out() -> None:
    """17 kernels as Accel-Sim's maintainers publish them, with the figures that stand beside them."""
    with (DATA / "accuracy-h200.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # At 1,000 MHz a cycle is a ns.
    real = [RealKernel(int(r["kernel_index"]), r["kernel_name"], float(r["hardware_cycles"])) for r in rows]
    kernels = make_kernels("sim-A-0", [float(r["simulated_cycles"]) for r in rows])
    (found,) = assess(make_run(("A", 1)), kernels, real).configs
    assert found.mape_pct == pytest.approx(13.72, abs=0.005)
    assert found.pearson == pytest.approx(0.9741, abs=0.00005)
    assert (found.within_1pct, found.under, found.over, found.matched) == (2, 9, 6, 17)
    assert found.unmatched == []
    assert len(found.worst) == 10
    assert [(w.kernel_index, w.kernel_name) for w in found.worst[:2]] == [
        (8, "_Z7mem_latPjS_PmS0_j"),
        (3, "_Z6l1_latPjS_PmS0_jj"),
    ]
    assert found.worst[0].error_pct == pytest.approx((12696253 - 21126146.0025) / 21126146.0025 * 100)
    assert found.bias_pct == pytest.approx(-1.9593, abs=0.0001)


def test_without_real_timing_there_is_nothing_to_assess() -> None:
    run = make_run(("A", 1))
    assert assess(run, make_kernels("sim-A-0", [1.0]), None) == RunAccuracy(has_real_timing=False, configs=[])


def test_each_kernel_left_out_is_listed_with_its_reason() -> None:
    run = make_run(("A", 2), ("B", 1))
    kernels = [
        make_kernel("sim-A-0", 0, 110.0),
        make_kernel("sim-A-0", 1, 100.0),
        make_kernel("sim-A-0", 2, 100.0),
        make_kernel("sim-A-0", 3, None),
        make_kernel("sim-A-0", 4, 50.0, name="_Z1av _Z1bv", kernel_launch_uid=None),
        make_kernel("sim-A-0", 5, 9.0),
        make_kernel("sim-A-0", 6, 7.0, partial=True),
        make_kernel("sim-A-1", 0, 90.0),
        make_kernel("sim-B-0", 0, 1.0, partial=True),
        *(make_kernel("sim-B-0", i, 10.0) for i in range(1, 9)),
    ]
    durations = [100.0, 0.0, None, 100.0, 100.0, 5e-324, 100.0, 100.0]
    real = [RealKernel(i, f"r{i}", ns) for i, ns in enumerate(durations)]
    found = assess(run, kernels, real)
    assert [c.gpu_config for c in found.configs] == ["A", "B"]
    a, b = found.configs
    assert (a.matched, a.mape_pct, a.bias_pct, a.pearson, a.under, a.over, a.within_1pct) == (1, 0, 0, None, 0, 0, 1)
    assert [(u.kernel_index, u.kernel_name, u.real_ns, u.sim_ns, u.reason) for u in a.unmatched] == [
        (1, "r1", 0.0, 100.0, accuracy.REAL_ZERO),
        (2, "r2", None, 100.0, accuracy.NO_REAL_TIME),
        (3, "r3", 100.0, None, accuracy.NO_SIM_TIME),
        (4, "r4", 100.0, None, accuracy.CONCURRENT),
        (5, "r5", 5e-324, 9.0, accuracy.OUT_OF_RANGE),
        (6, "r6", 100.0, None, accuracy.CUT_SHORT),
        (7, "r7", 100.0, None, accuracy.REAL_ONLY),
    ]
    assert [(u.kernel_index, u.reason) for u in b.unmatched] == [
        (0, accuracy.CUT_SHORT),
        (1, accuracy.REAL_ZERO),
        (2, accuracy.NO_REAL_TIME),
        (5, accuracy.OUT_OF_RANGE),
        (8, accuracy.SIM_ONLY),
    ]
    assert b.unmatched[-1].kernel_name == "_Z1iv"


def test_a_whole_replica_counts_where_another_was_cut() -> None:
    kernels = [make_kernel("sim-A-0", 0, 3.0, partial=True), make_kernel("sim-A-1", 0, 102.0)]
    (found,) = assess(make_run(("A", 2)), kernels, [RealKernel(1, "r", 100.0)]).configs
    assert (found.matched, found.mape_pct, found.over, found.pearson) == (1, 2.0, 1, None)


def test_one_percent_is_within() -> None:
    kernels = make_kernels("sim-A-0", [101.0, 99.0, 101.01, 98.99])
    real = [RealKernel(i, "r", 100.0) for i in range(4)]
    (found,) = assess(make_run(("A", 1)), kernels, real).configs
    assert (found.within_1pct, found.over, found.under) == (2, 1, 1)
    assert found.pearson is None  # the real times don't vary


def test_correlation() -> None:
    assert pearson([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert pearson([], []) is None
    assert pearson([1], [1]) is None
    assert pearson([1, 1], [1, 2]) is None
    assert pearson([0.1, 0.1, 0.1], [1, 2, 3]) is None
    assert pearson([1e308, 1.7e308, 0], [1e-300, 2e-300, 0]) == pytest.approx(0.99485, abs=1e-5)


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, allow_infinity=False)),
            st.one_of(st.none(), st.floats(0, allow_infinity=False)),
            st.booleans(),
        ),
        max_size=25,
    )
)
def test_every_kernel_is_matched_or_listed_and_all_figures_are_numbers(
    rows: list[tuple[float | None, float | None, bool]],
) -> None:
    real = [RealKernel(i, "r", real_ns) for i, (real_ns, _, _) in enumerate(rows)]
    kernels = [make_kernel("sim-A-0", i, sim_ns, partial=cut) for i, (_, sim_ns, cut) in enumerate(rows)]
    (found,) = assess(make_run(("A", 1)), kernels, real).configs
    assert found.matched + len(found.unmatched) == len(rows)
    assert found.under + found.over + found.within_1pct == found.matched
    assert len(found.worst) == min(10, found.matched)
    for figure in (found.mape_pct, found.bias_pct):
        assert (figure is None) is (found.matched == 0)
        assert figure is None or math.isfinite(figure)
    assert found.pearson is None or -1 <= found.pearson <= 1

"""Values into words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cascade_server.contract.states import RunState, SimState, TraceState
from cascade_tui import format as fmt
from cascade_tui.kernel_names import full_name, short_name

from .recorded import NOW, RUN_ID, sim_at


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1:00"),
        (3599, "59:59"),
        (3600, "1h00"),
        (90_061, "1d01"),
        (-3, "0s"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (7, "7"),
        (7.5, "7.50"),
        (999, "999"),
        (999.6, "1.00k"),
        (9216, "9.22k"),
        (141_796, "142k"),
        (999_499, "999k"),
        (2.5e9, "2.50G"),
        (float("nan"), "–"),
        (float("inf"), "–"),
    ],
)
def test_si(value: float | None, text: str) -> None:
    assert fmt.si(value) == text


def test_si_with_a_unit() -> None:
    assert fmt.si(141_796, "inst/s") == "142k inst/s"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (77_000, "75 KB"), (5 << 30, "5.0 GB"), (None, "–")],
)
def test_sizes(count: int | None, text: str) -> None:
    assert fmt.size(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (812, "812 ns"),
        (7157.2, "7.16 µs"),
        (68_000, "68.0 µs"),
        (120_400, "120 µs"),
        (1.2e6, "1.20 ms"),
        (None, "–"),
    ],
)
def test_simulated_times(value: float | None, text: str) -> None:
    assert fmt.nanoseconds(value) == text


@pytest.mark.parametrize(
    ("ago", "text"), [(3, "now"), (61, "1m"), (3599, "59m"), (7200, "2h"), (86_400 * 12, "12d"), (-5, "now")]
)
def test_ages(ago: float, text: str) -> None:
    assert fmt.age(NOW - timedelta(seconds=ago), NOW) == text


@pytest.mark.parametrize(
    ("grid", "text"), [((32, 1, 1), "32"), ((16, 4, 1), "16×4"), ((1, 1, 1), "1"), ((1, 1, 8), "1×1×8")]
)
def test_dims(grid: tuple[int, int, int], text: str) -> None:
    assert fmt.dims(grid) == text


def test_every_state_has_its_own_glyph_and_word() -> None:
    for looks, states in ((fmt.SIM_LOOKS, SimState), (fmt.RUN_LOOKS, RunState), (fmt.TRACE_LOOKS, TraceState)):
        assert set(looks) == set(states)
        assert len({look.glyph for look in looks.values()}) == len(looks)
        assert all(cell_len(look.glyph) == 1 for look in looks.values())


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("void f<int[4]>(int*)", "void f<int[4]>(int*)"),
        ("[/x]", "[/x]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://evil\x1b\\link", "link"),
        ("a\x1b", "a"),
        ("\x9b31mC1", "31mC1"),
        ("nul\0bell\x07", "nulbell"),
        ("a\tb", "a       b"),
        ("two\nlines\r\n", "two lines  "),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth\u200d", "zerowidth"),
        ("caf\u00e9 \U0001f600", "caf\u00e9 \U0001f600"),
        ("\ud800", "\ufffd"),
        ("a\u00a0b", "a b"),
    ],
)
def test_safe_text(raw: str, clean: str) -> None:
    assert fmt.safe_text(raw) == clean


@given(st.text(st.characters(codec=None)))
def test_safe_text_holds_nothing_that_moves_a_terminal(raw: str) -> None:
    clean = fmt.safe_text(raw)
    assert all(char.isprintable() or char == "\ufffd" for char in clean)
    clean.encode()


def test_progress_counts_finished_kernels_only() -> None:
    progress = fmt.progress_of(
        sim_at(RUN_ID, "SM7_QV100", 0, SimState.RUNNING, kernels=8, blocks=9, started=60).summary
    )
    assert progress.count == "8/12"
    assert progress.done == pytest.approx(8 / 12)
    assert progress.issued == pytest.approx(9 / 16 / 12)


def test_all_blocks_issued_is_not_done() -> None:
    sim = sim_at(RUN_ID, "SM7_QV100", 0, SimState.RUNNING, kernels=11, blocks=32, started=60).summary
    progress = fmt.progress_of(sim)
    assert progress.done == pytest.approx(11 / 12)
    assert fmt.issued_of(sim) == "32/32"


@given(
    done=st.integers(0, 200),
    total=st.integers(0, 100),
    issued=st.none() | st.integers(0, 100),
    blocks=st.none() | st.integers(0, 50),
    state=st.sampled_from(SimState),
)
def test_progress_never_exceeds_the_whole(
    done: int, total: int, issued: int | None, blocks: int | None, state: SimState
) -> None:
    sim = sim_at(RUN_ID, "SM7_QV100", 0, SimState.PENDING).summary.model_copy(
        update={
            "state": state,
            "kernels_done": done,
            "kernels_total": total,
            "blocks_issued": issued,
            "blocks_total": blocks,
        }
    )
    progress = fmt.progress_of(sim)
    assert 0 <= progress.done <= 1
    assert progress.issued >= 0
    assert progress.done + progress.issued <= 1 + 1e-9


def test_eta_comes_from_finished_kernels() -> None:
    sim = sim_at(RUN_ID, "SM7_QV100", 0, SimState.RUNNING, kernels=8, blocks=9, started=60).summary
    assert fmt.eta_of(sim, NOW) == pytest.approx(30)
    assert fmt.eta(30.0) == "~30s"


def test_nothing_is_estimated_without_ground() -> None:
    sim = sim_at(RUN_ID, "SM7_QV100", 0, SimState.RUNNING, kernels=8, started=60).summary
    assert fmt.eta_of(sim.model_copy(update={"kernels_done": 0}), NOW) is None
    assert fmt.eta_of(sim.model_copy(update={"stand_in": True}), NOW) is None
    assert fmt.eta_of(sim.model_copy(update={"state": SimState.SUCCEEDED}), NOW) is None
    assert fmt.eta_of(sim.model_copy(update={"kernels_done": 13}), NOW) is None
    assert fmt.elapsed_of(sim_at(RUN_ID, "SM7_QV100", 0, SimState.PENDING).summary, NOW) is None


@pytest.mark.parametrize(
    ("mangled", "full", "short"),
    [
        ("_Z9layernormPKfPfi", "layernorm(float const*, float*, int)", "layernorm"),
        ("_Z8mlp_gemmILi0EEvPKfS1_Pfi", "void mlp_gemm<0>(float const*, float const*, float*, int)", "mlp_gemm<0>"),
        ("void at::native::copy<int, 4>(float*)", "void at::native::copy<int, 4>(float*)", "copy<int, 4>"),
        ("void (anonymous namespace)::f<int>(int) [clone .x]", None, "f<int>"),
        ("plain", "plain", "plain"),
        ("f<int[4]>", "f<int[4]>", "f<int[4]>"),
        ("_Zbroken", "_Zbroken", "_Zbroken"),
        ("operator()", "operator()", "operator"),
        ("", "", ""),
        ("[/x]", "[/x]", "[/x]"),
    ],
)
def test_kernel_names(mangled: str, full: str | None, short: str) -> None:
    assert full is None or full_name(mangled) == full
    assert short_name(mangled) == short


@given(st.text())
def test_any_kernel_name_is_shown_somehow(name: str) -> None:
    assert all(char.isprintable() or char == "\ufffd" for char in short_name(name) + full_name(name))


def test_a_name_that_would_fill_the_memory_stays_mangled() -> None:
    name = "_Z1f1AIiE" + "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert full_name(name) == name
    assert short_name(name) == name

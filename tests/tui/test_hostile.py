"""Text and terminals of every kind: nothing from outside is markup or moves the terminal, no size crashes."""

from __future__ import annotations

import pytest

from cascade_server.contract.events import SnapshotEvent
from cascade_server.contract.models import GpuConfig, KernelStat, RunDetail, TraceDetail, TraceSummary
from cascade_server.contract.states import SimState
from cascade_tui.app import CascadeApp
from cascade_tui.screens.run import RunScreen

from .flying import offline, open_run, shown, text_of
from .recorded import RUN_ID, Sim, finished_run, mid_run, run_of, sim_at, trace_of

HOSTILE = [
    "[/x]",
    "[bold red]f<int[4]>[/]",
    "L2[GLOBAL][HIT]",
    "\x1b[2J\x1b]0;owned\x07text",
    "\x9b5nC1",
    "nul\0here",
    "a\r\nb\tc",
    "\u202e\u2066right to left\u2069",
    "\u05e9\u05dc\u05d5\u05dd",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "e" + "\u0301" * 40,
    "\ufffd\ud800",
    "x" * 560,
    "$(reboot) `id` %s {0} \\[",
    "",
]


# Lone surrogates can't cross the wire in a name; everything else can, in any field.
FIELDS = [text.encode("utf-8", "replace").decode() for text in HOSTILE]


def hostile_traces() -> list[TraceDetail]:
    demo = trace_of("demo-sm70", demo=True)
    launches = [demo.kernels[0].model_copy(update={"name": f, "kernel_id": i}) for i, f in enumerate(FIELDS)]
    traces = []
    for index, field in enumerate(FIELDS):
        values: dict[str, object] = dict.fromkeys(("model", "source_gpu", "trace_gpu_arch"), field)
        values |= {"id": f"{field}{index}", "layers": [field, field], "suggested_sim_config": field}
        traces.append(demo.model_copy(update={**values, "kernels": launches}))
    return traces


def hostile_run(trace: TraceDetail) -> tuple[RunDetail, list[Sim]]:
    sims = []
    for index, (raw, field) in enumerate(zip(HOSTILE, FIELDS, strict=True)):
        state = SimState.FAILED if index % 2 else SimState.RUNNING
        sim = sim_at(RUN_ID, "SM7_QV100", index, state, kernels=1, blocks=2, started=9)
        names = {"current_kernel": field, "gpu_config": field or "c", "replay_of": field, "launcher_ref": field}
        error = {"error": field} if index % 2 else {}
        sims.append(Sim(sim.summary.model_copy(update={**names, **error}), lines=[raw, raw * 50]))
    run = run_of(RUN_ID, trace, [])
    return run.model_copy(update={"sims": [s.summary for s in sims], "notice": " ".join(FIELDS)}), sims


async def test_text_from_outside_is_only_shown() -> None:
    traces = hostile_traces()
    run, sims = hostile_run(traces[0])
    seen = ""
    async with offline([(run, sims)], size=(160, 60)) as (pilot, app):
        app.store.configs = [GpuConfig(name=f or "c", arch=f, core_clock_mhz=1.0) for f in FIELDS]
        app.store.set_lists([TraceSummary.model_validate(t.model_dump()) for t in traces], app.store.runs)
        for trace in traces:
            app.store.set_detail(trace)
        await shown(pilot)
        for _ in traces:
            await pilot.press("j")
            seen += text_of(pilot)
        await pilot.press("enter", "space", "plus")
        seen += text_of(pilot)
        await pilot.press("escape", "r")
        await open_run(pilot, app, RUN_ID)
        for _ in sims:
            await pilot.press("j")
            seen += text_of(pilot)
        await pilot.press("2", "l", "G", "3", "s", "c", "escape", "question_mark", "escape", "ctrl+p", "escape")
        seen += text_of(pilot)
    assert all(char.isprintable() or char in "\n\ufffd" for char in seen)
    for text in HOSTILE[:3]:
        assert text in seen, "brackets stay"
    assert "owned" not in seen


async def test_an_error_toast_is_no_markup() -> None:
    async with offline() as (pilot, app):
        app.tell_error("[/x] \x1b[31mno")
        await pilot.pause()
        assert "[/x] no" in text_of(pilot)


async def test_odd_numbers_in_a_run() -> None:
    run, sims = mid_run()
    sim = sims[1].summary
    odd = {"kernels_done": 99, "kernels_total": 0, "blocks_issued": 70, "blocks_total": 0, "replica": 63}
    sims[1] = Sim(sim.model_copy(update=odd), sims[1].kernels, sims[1].lines)
    run = run.model_copy(update={"sims": [s.summary for s in sims], "entries": run.entries[:1]})
    async with offline([(run, sims)], size=(140, 40)) as (pilot, app):
        stats = [
            KernelStat(sim_id=sim.id, kernel_index=index, kernel_name="", sim_time_ns=value)
            for index, value in enumerate([None, 0.0, -1.0, float("inf"), float("nan"), 1e-9, 1e15])
        ]
        app.store.run(RUN_ID).apply(SnapshotEvent(run=run, kernels=stats))
        await open_run(pilot, app, RUN_ID)
        await pilot.press("3", "s")
        await shown(pilot)
        assert "99/0" in text_of(pilot)


SIZES = [(1, 1), (30, 10), (140, 40), (1, 50), (300, 2), (60, 20), (20, 5), (80, 24)]


@pytest.mark.parametrize("keys", [("enter",), ("r",), ("3", "3")], ids=str)
async def test_any_size_of_the_home_screens(keys: tuple[str, ...]) -> None:
    async with offline() as (pilot, _app):
        await pilot.press(*keys)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await shown(pilot)


@pytest.mark.parametrize("keys", [(), ("c",), ("2", "2"), ("3", "3", "question_mark")], ids=str)
async def test_any_size_of_the_run_screen(keys: tuple[str, ...]) -> None:
    async with offline([finished_run()]) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press(*keys)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await shown(pilot)
        assert any(isinstance(screen, RunScreen) for screen in app.screen_stack)
        assert "run-4be1c09a77e2" in text_of(pilot) or len(app.screen_stack) > 2


async def test_a_small_terminal_still_tells_state_and_progress() -> None:
    async with offline(size=(30, 10)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        text = text_of(pilot)
        assert "● active" in text
        assert "SM7_QV100" in text
        assert "━" in text


async def test_without_colour_states_and_progress_are_told_by_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with offline(size=(140, 40)) as (pilot, app):
        assert app.no_color
        await open_run(pilot, app, RUN_ID)
        text = text_of(pilot)
        for sign in ("● running", "○ pending", "✓ succeeded", "━╍", "█ SM7_QV100", "▒ SM7_GV100", "░ SM7_TITANV"):
            assert sign in text


@pytest.mark.parametrize("theme", ["textual-light", "ansi-dark"])
async def test_themes_that_come_with_textual_work(theme: str) -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        assert isinstance(app, CascadeApp)
        app.theme = theme
        await open_run(pilot, app, RUN_ID)
        await pilot.press("c", "escape")
        assert "● running" in text_of(pilot)

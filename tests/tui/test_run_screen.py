"""The run screen: sims, log, chart and its keys, on recorded data."""

from __future__ import annotations

from cascade_server.contract.events import LogEvent
from cascade_server.contract.states import SimState
from cascade_tui.screens.confirm import Confirm
from cascade_tui.screens.run import RunScreen
from cascade_tui.screens.traces import TracesScreen
from cascade_tui.widgets.chart import KernelChart
from cascade_tui.widgets.key_bar import KeyBar
from cascade_tui.widgets.log_view import LogView

from .flying import offline, open_run, row_keys, shown, text_of
from .recorded import FAILURE, REPLAYED, RUN_ID, finished_run, mid_run, run_of, sim_at, trace_of
from .waiting import until


async def test_a_run_shows_its_sims() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        text = text_of(pilot)
        assert len(row_keys(app, "#sims")) == 6
        for wanted in ("● running", "○ pending", "✓ succeeded", "8/12", "9/16", "qkv_gemm", "146k", "~33s", REPLAYED):
            assert wanted in text
        assert "issued 9/16 blocks" in text
        assert "SM7_QV100 #0" in text


async def test_the_log_is_of_the_chosen_sim() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        assert "thread block = 8,0,0" in text_of(pilot)
        await pilot.press("j")
        await shown(pilot)
        assert "No line yet." in text_of(pilot)
        await pilot.press("j", "enter")
        assert app.screen.query_one(LogView).has_focus
        assert "thread block = 23,0,0" in text_of(pilot)


async def test_a_failure_is_told_in_full() -> None:
    async with offline([finished_run()], size=(80, 24)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press("j", "j", "j")
        await shown(pilot)
        text = " ".join(text_of(pilot).split())
        assert FAILURE in text
        assert "exit code -9" in text


async def test_following_stops_and_goes_on() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press("2")
        log = app.screen.query_one(LogView)
        assert log.following
        await pilot.press("k", "k")
        assert not log.following
        data = app.store.run(RUN_ID)
        sim = data.sims[0]
        buffer = data.log(sim.id)
        top = buffer.first + log.scroll_offset.y
        end = buffer.end
        data.apply(LogEvent(sim_id=sim.id, lines=["one more", "and \x1b[31manother"], seq=end))
        await shown(pilot)
        assert buffer.first + log.scroll_offset.y == top, "the lines in sight stay"
        assert "2 new lines" in text_of(pilot)
        await pilot.press("G")
        await shown(pilot)
        assert log.following
        text = text_of(pilot)
        assert "and another" in text
        assert "following" in text
        await pilot.press("g")
        assert log.scroll_offset.y == 0
        await pilot.press("ctrl+d", "pagedown", "ctrl+u", "pageup", "l", "h", "right", "left")
        await pilot.press("j", "down", "up", "home", "end")
        assert log.following


async def test_the_same_lines_stay_in_sight_when_older_ones_come() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        data = app.store.run(RUN_ID)
        buffer = data.log(data.sims[0].id)
        lines = buffer.slice(0, buffer.end)
        buffer.reset()
        buffer.merge(500, lines[500:])
        await shown(pilot)
        await pilot.press("2", "k", "k", "k")
        log = app.screen.query_one(LogView)
        before = log.scroll_offset.y + buffer.first
        buffer.merge(0, lines)
        await shown(pilot)
        assert log.scroll_offset.y + buffer.first == before


async def test_cancelling_asks_first_and_the_default_is_no() -> None:
    async with offline() as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        for keys in (["enter"], ["n"], ["escape"], ["right", "left", "space"]):
            await pilot.press("c")
            assert isinstance(app.screen, Confirm)
            assert "5 sims of" in text_of(pilot)
            await pilot.press(*keys)
            assert isinstance(app.screen, RunScreen)


async def test_a_finished_run_cant_be_cancelled() -> None:
    async with offline([finished_run()]) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press("c")
        assert isinstance(app.screen, RunScreen)
        hint = next(hint for hint in app.screen.query_one(KeyBar).hints() if "run.cancel" in hint.ids)
        assert not hint.enabled


async def test_the_chart_has_a_scale_to_choose() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press("3")
        chart = app.screen.query_one(KernelChart)
        assert chart.has_focus
        linear = text_of(pilot)
        assert "µs" in linear
        assert "kernel, in the order they finished" in linear
        await pilot.press("s")
        await shown(pilot)
        assert chart.log_scale
        assert "log scale" in text_of(pilot)


async def test_a_chart_without_data_says_so() -> None:
    sims = [sim_at(RUN_ID, "SM7_QV100", 0, SimState.PENDING)]
    run = run_of(RUN_ID, trace_of("demo-sm70", demo=True), sims)
    async with offline([(run, sims)], size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        assert "No data yet" in text_of(pilot)


async def test_stand_ins_cant_be_overlooked() -> None:
    run, sims = mid_run()
    for sim in sims[:2]:
        sim.summary = sim.summary.model_copy(update={"stand_in": True, "replay_of": "ok-layers4-a100"})
    run = run_of(RUN_ID, trace_of("demo-sm70", demo=True), sims)
    async with offline([(run, sims)], size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        text = text_of(pilot)
        assert "Stand-in: 2 of 6 sims (marked ≈)" in text
        assert "≈SM7_TITANV" in text


async def test_an_unknown_run_says_so() -> None:
    async with offline() as (pilot, app):
        app.store.run("run-0").missing = "No such run: run-0 [/x]"
        await open_run(pilot, app, "run-0")
        assert "No such run: run-0 [/x]" in text_of(pilot)
        await pilot.press("c", "s", "T", "2", "3", "escape")
        assert isinstance(app.screen, TracesScreen)


async def test_panes_are_side_by_side_or_tabs() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        assert screen.pane(2).region.right <= screen.pane(3).region.x
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert screen.pane(2).region.area > 0
        assert screen.pane(3).region.area == 0
        await pilot.press("3")
        await pilot.pause()
        assert screen.pane(2).region.area == 0
        assert screen.pane(3).region.area > 0


async def test_titles_can_be_clicked() -> None:
    async with offline(size=(80, 24)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        line = screen.pane(2).title_line
        at = str(line.render()).index("3 Chart")
        await pilot.click(line, offset=(at + 2, 0))
        assert screen.current_pane == 3


async def test_the_key_bar_shows_what_fits_and_can_be_clicked() -> None:
    async with offline(size=(80, 24)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        bar = app.screen.query_one(KeyBar)
        assert bar.fitting(bar.size.width) == bar.hints(), "all of it at 80 columns"
        assert "Enter open  c cancel run  1 2 3 panes  Esc back  ? help" in text_of(pilot)
        assert [hint.ids for hint in bar.fitting(8)] == [("app.help",)]
        await pilot.click(bar, offset=(text_of(pilot).split("\n")[-1].index("cancel"), 0))
        await until(pilot, lambda: isinstance(app.screen, Confirm))

"""The keys of every screen, on recorded data."""

from __future__ import annotations

import pytest
from textual.command import CommandPalette

from cascade_server.contract.states import SimState, TraceState
from cascade_tui import themes
from cascade_tui.messages import StoreChanged
from cascade_tui.screens.confirm import Confirm
from cascade_tui.screens.help import HelpScreen
from cascade_tui.screens.new_run import NewRunScreen, preselected
from cascade_tui.screens.run import RunScreen
from cascade_tui.screens.runs import RunsScreen
from cascade_tui.screens.traces import TracesScreen

from .flying import offline, open_run, row_keys, shown, table, text_of
from .recorded import CONFIGS, RUN_ID, run_of, sim_at, trace_of
from .waiting import until

SAMPLE_RUN = "run-5a3b1e000000"


# -- traces ----------------------------------------------------------------------------------


async def test_home_shows_traces_kernels_and_runs() -> None:
    async with offline() as (pilot, app):
        assert isinstance(app.screen, TracesScreen)
        assert row_keys(app, "#traces") == ["demo-sm70", "sample-layers4-sm80"]
        assert len(row_keys(app, "#kernels")) == 12
        assert row_keys(app, "#trace-runs") == [RUN_ID]
        text = text_of(pilot)
        assert "demo: can be run now" in text
        assert "mlp_gemm<0>(float" in text
        await pilot.press("j")
        await shown(pilot)
        assert len(row_keys(app, "#kernels")) == 24
        assert "sample: finished results only" in text_of(pilot)
        await pilot.press("k")
        assert table(app, "#traces").chosen == "demo-sm70"


@pytest.mark.parametrize(("down", "up", "top", "bottom"), [("j", "k", "g", "G"), ("down", "up", "home", "end")])
async def test_lists_go_by_arrows_and_vim_keys(down: str, up: str, top: str, bottom: str) -> None:
    async with offline() as (pilot, app):
        await pilot.press("2", down, down, up)
        kernels = table(app, "#kernels")
        assert kernels.has_focus
        assert kernels.chosen == "2"
        await pilot.press(bottom)
        assert kernels.chosen == "12"
        await pilot.press(top)
        assert kernels.chosen == "1"
        await pilot.press("ctrl+d", "pagedown")
        assert kernels.chosen == "12"
        await pilot.press("ctrl+u", "pageup")
        assert kernels.chosen == "1"


async def test_panes_by_number_tab_and_zoom() -> None:
    async with offline(size=(80, 24)) as (pilot, app):
        screen = app.screen
        assert isinstance(screen, TracesScreen)
        await pilot.press("3")
        assert screen.current_pane == 3
        assert not screen.pane(2).display or screen.pane(2).region.area == 0
        await pilot.press("3")
        assert screen.zoomed
        await pilot.pause()
        assert screen.pane(1).region.area == 0
        await pilot.press("escape")
        assert not screen.zoomed
        await pilot.press("tab")
        assert screen.current_pane == 1
        await pilot.press("shift+tab")
        assert screen.current_pane == 3
        await pilot.press("escape")
        assert screen.current_pane == 1


async def test_a_trace_that_failed_says_why() -> None:
    async with offline() as (pilot, app):
        error = "kernelslist.g [/names] no kernel"
        failed = app.store.traces[0].model_copy(update={"state": TraceState.FAILED, "error": error})
        app.store.set_lists([failed, app.store.traces[1]], app.store.runs)
        app.post_message(StoreChanged())
        await pilot.pause()
        await shown(pilot)
        assert "✗ kernelslist.g [/names] no kernel" in text_of(pilot)


async def test_no_traces_at_all() -> None:
    async with offline() as (pilot, app):
        app.store.set_lists([], [])
        await shown(pilot)
        assert "No traces yet." in text_of(pilot)
        await pilot.press("n", "enter", "2", "3", "j")
        assert isinstance(app.screen, TracesScreen)


# -- going about -----------------------------------------------------------------------------


async def test_ways_between_screens() -> None:
    async with offline() as (pilot, app):
        await pilot.press("r")
        assert isinstance(app.screen, RunsScreen)
        await shown(pilot)
        assert row_keys(app, "#runs") == [RUN_ID]
        await pilot.press("enter")
        assert isinstance(app.screen, RunScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, RunsScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, TracesScreen)
        await pilot.press("3", "enter")
        assert isinstance(app.screen, RunScreen)
        await pilot.press("r")
        assert isinstance(app.screen, RunsScreen)
        await pilot.press("t")
        assert isinstance(app.screen, TracesScreen)
        assert len(app.screen_stack) == 1


async def test_from_a_run_to_its_trace() -> None:
    async with offline() as (pilot, app):
        await pilot.press("j", "r")
        await open_run(pilot, app, RUN_ID)
        await pilot.press("T")
        await pilot.pause()
        assert isinstance(app.screen, TracesScreen)
        assert table(app, "#traces").chosen == "demo-sm70"


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_leaving(key: str) -> None:
    async with offline() as (pilot, app):
        await pilot.press(key)
        assert app._exit


async def test_ctrl_c_leaves_from_a_dialog_too() -> None:
    async with offline() as (pilot, app):
        await pilot.press("enter")
        assert isinstance(app.screen, NewRunScreen)
        await pilot.press("ctrl+c")
        assert app._exit


async def test_the_theme_changes_every_colour() -> None:
    async with offline() as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        dark = app.export_screenshot()
        await pilot.press("ctrl+t")
        await shown(pilot)
        assert app.theme == themes.LIGHT
        light = app.export_screenshot().lower()
        assert "#58a6ff" in dark.lower()
        assert "#58a6ff" not in light
        await pilot.press("ctrl+t")
        assert app.theme == themes.DARK


async def test_help_names_the_keys_of_the_screen() -> None:
    async with offline(size=(140, 40)) as (pilot, app):
        await open_run(pilot, app, RUN_ID)
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        text = text_of(pilot)
        assert "Cancel the run (asks first)" in text
        assert "Last line, and follow" in text
        await pilot.press("j", "k", "down", "up", "escape")
        assert isinstance(app.screen, RunScreen)


async def test_the_palette_does_what_keys_do() -> None:
    async with offline() as (pilot, app):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*"goruns")
        await until(pilot, lambda: "Go to the runs" in text_of(pilot))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))


# -- new run ---------------------------------------------------------------------------------


def test_what_is_chosen_beforehand() -> None:
    demo = trace_of("demo-sm70", demo=True)
    assert preselected(demo, CONFIGS) == {"SM7_GV100": 1, "SM7_QV100": 1, "SM7_TITANV": 1}
    plain = demo.model_copy(update={"demo": False})
    assert preselected(plain, CONFIGS) == {"SM7_QV100": 1}
    none = plain.model_copy(update={"suggested_sim_config": None})
    assert preselected(none, CONFIGS) == {}
    only = none.model_copy(update={"trace_gpu_arch": "sm_80"})
    assert preselected(only, CONFIGS) == {"SM80_A100": 1}
    wrong = none.model_copy(update={"suggested_sim_config": "SM80_A100"})
    assert preselected(wrong, CONFIGS) == {}


async def test_choosing_configs_and_counts() -> None:
    async with offline() as (pilot, app):
        await pilot.press("enter")
        screen = app.screen
        assert isinstance(screen, NewRunScreen)
        assert "3 configs · 3 sims" in text_of(pilot)
        await pilot.press("plus")
        assert "3 configs · 4 sims" in text_of(pilot)
        await pilot.press("l", "right", "equals_sign", "minus", "h")
        assert "3 configs · 5 sims" in text_of(pilot)
        await pilot.press("space")
        assert "2 configs · 2 sims" in text_of(pilot)
        await pilot.press("space", "left")
        assert "2 configs · 2 sims" in text_of(pilot)
        await pilot.press("j", "space", "j", "space")
        assert "Take at least one config" in text_of(pilot)
        await pilot.press("enter")
        assert app.screen is screen
        await pilot.press("G", "space")
        assert "SM90_H100 can't run this trace: it is sm_70." in text_of(pilot)
        await pilot.press("escape")
        assert isinstance(app.screen, TracesScreen)


async def test_many_sims_are_asked_about() -> None:
    async with offline() as (pilot, app):
        await pilot.press("enter", "plus", "plus", "enter")
        assert isinstance(app.screen, Confirm)
        assert "Launch 5 sims?" in text_of(pilot)
        await pilot.press("enter")
        assert isinstance(app.screen, NewRunScreen), "the safe answer is chosen first"


async def test_a_sample_says_why_it_cant_be_run_and_opens_its_run() -> None:
    sample = trace_of("sample-layers4-sm80", sample=True)
    sim = sim_at(SAMPLE_RUN, "SM7_QV100", 0, SimState.SUCCEEDED, kernels=12, started=60, took=30)
    run = run_of(SAMPLE_RUN, sample, [sim]).model_copy(update={"sample": True})
    async with offline([(run, [sim])]) as (pilot, app):
        await pilot.press("j", "enter")
        assert isinstance(app.screen, NewRunScreen)
        text = text_of(pilot)
        assert "it can't be run here" in text
        assert SAMPLE_RUN in text
        await pilot.press("space", "plus", "enter")
        await pilot.pause()
        assert isinstance(app.screen, RunScreen)
        assert app.screen.run_id == SAMPLE_RUN

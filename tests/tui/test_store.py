"""The cache of what the server told: any order, doubling and coalescing of events comes to the same."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent
from cascade_server.contract.models import KernelStat, RunDetail, SimSummary
from cascade_server.contract.states import SimState, may_move, run_state
from cascade_tui.log_buffer import MAX_LINE, LogBuffer
from cascade_tui.store import KEPT_RUNS, Changed, RunData, Store

from .recorded import NOW, RUN_ID, fill, finished_run, mid_run, run_of, sim_at, trace_of

Event = SimEvent | KernelEvent | LogEvent


class Server:
    """A server's view of one run, that tells every change as an event."""

    def __init__(self) -> None:
        sims = [sim_at(RUN_ID, config, 0, SimState.PENDING) for config in ("SM7_QV100", "SM7_TITANV")]
        self.run = run_of(RUN_ID, trace_of("demo-sm70", demo=True), sims)
        self.sims = {sim.id: sim for sim in self.run.sims}
        self.kernels: dict[tuple[str, int], KernelStat] = {}
        self.logs: dict[str, list[str]] = {sim_id: [] for sim_id in self.sims}
        self.events: list[Event] = []
        self.now = NOW

    def move(self, sim_id: str, state: SimState) -> None:
        """Change a sim's state, if that is legal; a heartbeat comes with it, unless it is lost."""
        sim = self.sims[sim_id]
        if not may_move(sim.state, state):
            return
        beat = {} if state in (SimState.LAUNCHING, SimState.LOST) else {"last_heartbeat_at": self._tick()}
        self._tell(sim, state=state, **beat)

    def log(self, sim_id: str, lines: int, kernel: bool) -> None:
        """Take lines, which may finish a kernel."""
        sim = self.sims[sim_id]
        if sim.state is not SimState.RUNNING:
            return
        log = self.logs[sim_id]
        new = [f"line {number} of {sim_id}" for number in range(len(log), len(log) + lines)]
        self.events.append(LogEvent(sim_id=sim_id, lines=new, seq=len(log)))
        log.extend(new)
        if kernel:
            stat = KernelStat(
                sim_id=sim_id, kernel_index=sim.kernels_done, kernel_name="k", sim_time_ns=5.0, stats={"gpu_ipc": 1.0}
            )
            self._kernel(stat)
        self._tell(sim, kernels_done=sim.kernels_done + kernel, log_lines=len(log), log_tail=log[-20:])

    def cut_short(self, sim_id: str) -> None:
        """Say that a limit cut the last kernel."""
        last = self.sims[sim_id].kernels_done - 1
        if last >= 0:
            self._kernel(self.kernels[sim_id, last].model_copy(update={"partial": True, "stats": {"gpu_ipc": 1.0}}))

    def snapshot(self) -> SnapshotEvent:
        """All as it is now."""
        counts: dict[SimState, int] = {}
        for sim in self.sims.values():
            counts[sim.state] = counts.get(sim.state, 0) + 1
        run = self.run.model_copy(
            update={"sims": list(self.sims.values()), "sim_counts": counts, "state": run_state(counts)}
        )
        return SnapshotEvent(run=run, kernels=list(self.kernels.values()))

    def _tick(self) -> object:
        self.now += timedelta(seconds=1)
        return self.now

    def _tell(self, sim: SimSummary, **changes: object) -> None:
        new = sim.model_copy(update=changes)
        self.sims[sim.id] = new
        self.events.append(SimEvent(sim=new))

    def _kernel(self, stat: KernelStat) -> None:
        self.kernels[stat.sim_id, stat.kernel_index] = stat.model_copy(update={"stats": {}})
        self.events.append(KernelEvent(stat=stat))


def known(data: RunData) -> tuple[object, ...]:
    """All of a run but its logs."""
    assert data.detail is not None
    return data.sims, data.kernels, data.detail.sim_counts, data.detail.state, data.times_ns()


STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.one_of(
            st.sampled_from(
                [SimState.LAUNCHING, SimState.RUNNING, SimState.RUNNING, SimState.LOST, SimState.SUCCEEDED]
            ),
            st.sampled_from([SimState.FAILED, SimState.CANCELLED, "cut"]),
            st.tuples(st.integers(1, 40), st.booleans()),
        ),
    ),
    max_size=40,
)


def play(server: Server, steps: list[tuple[int, object]]) -> None:
    ids = list(server.sims)
    for which, step in steps:
        if isinstance(step, SimState):
            server.move(ids[which], step)
        elif isinstance(step, tuple):
            server.log(ids[which], *step)
        else:
            server.cut_short(ids[which])


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, st.data())
def test_any_order_of_events_leads_to_the_last_snapshot(
    before: list[tuple[int, object]], after: list[tuple[int, object]], data: st.DataObject
) -> None:
    server = Server()
    for sim_id in server.sims:
        server.move(sim_id, SimState.LAUNCHING)
        server.move(sim_id, SimState.RUNNING)
    play(server, before)
    start = server.snapshot()
    server.events.clear()
    play(server, after)
    newest = {event.sim.id: event for event in server.events if isinstance(event, SimEvent)}
    dropped = data.draw(st.sets(st.sampled_from(range(len(server.events)))) if server.events else st.just(set()))
    kept = [e for i, e in enumerate(server.events) if i not in dropped or not isinstance(e, SimEvent)]
    events = data.draw(st.permutations([*kept, *newest.values()]))

    seen, want = RunData(RUN_ID), RunData(RUN_ID)
    seen.apply(start)
    for event in [*events, *events[::2]]:
        seen.apply(event)
    want.apply(server.snapshot())

    assert known(seen) == known(want)
    for sim_id, lines in server.logs.items():
        log = seen.log(sim_id)
        assert log.slice(log.first, log.end) == lines[log.first : log.end], "what is held is a piece of the true log"
        log.merge(0, lines)
        assert log.slice(0, len(lines)) == lines, "and a fetch of the whole completes it"
        assert not log.behind


def test_an_event_that_says_nothing_new_changes_nothing() -> None:
    run, sims = mid_run()
    data = RunData(RUN_ID)
    snapshot = SnapshotEvent(run=run, kernels=[stat for sim in sims for stat in sim.kernels])
    assert data.apply(snapshot) >= {Changed.RUN, Changed.SIMS, Changed.KERNELS}
    assert data.apply(snapshot) == set()
    assert data.apply(SimEvent(sim=run.sims[0])) == set()
    assert data.apply(KernelEvent(stat=sims[0].kernels[0])) == set()
    lines = list(sims[1].lines)
    assert data.apply(LogEvent(sim_id=sims[1].summary.id, lines=lines[-3:], seq=len(lines) - 3)) == set()


def test_statistics_are_not_kept() -> None:
    data = RunData(RUN_ID)
    data.apply(KernelEvent(stat=KernelStat(sim_id="s", kernel_index=0, kernel_name="k", stats={"a": 1})))
    assert data.kernels[0].stats == {}


def test_a_reply_older_than_the_stream_changes_nothing() -> None:
    run, _ = mid_run()
    data = RunData(RUN_ID)
    data.apply(SnapshotEvent(run=run, kernels=[]))
    sim = run.sims[0]
    newer = sim.model_copy(update={"state": SimState.FAILED, "error": "no", "last_heartbeat_at": NOW})
    data.apply(SimEvent(sim=newer))
    assert data.merge_detail(run) == set()
    assert data.sim(sim.id) == newer


def test_sims_of_other_runs_are_ignored() -> None:
    data = RunData("run-000000000000")
    assert data.apply(SimEvent(sim=mid_run()[0].sims[0])) == set()


def test_times_are_medians_of_what_is_comparable() -> None:
    run, _ = finished_run()
    data = RunData(RUN_ID)

    def stat(replica: int, index: int, ns: float | None, *, partial: bool = False) -> KernelStat:
        sim = next(s for s in run.sims if (s.gpu_config, s.replica) == ("SM7_QV100", replica))
        return KernelStat(sim_id=sim.id, kernel_index=index, kernel_name="k", sim_time_ns=ns, partial=partial)

    kernels = [
        stat(0, 0, 10.0),
        stat(1, 0, 30.0),
        stat(0, 1, None),
        stat(0, 2, 0.0),
        stat(0, 3, float("inf")),
        stat(0, 4, 5.0, partial=True),
    ]
    data.apply(SnapshotEvent(run=run, kernels=kernels))
    assert data.times_ns() == {"SM7_QV100": {0: 20.0}, "SM7_GV100": {}, "SM7_TITANV": {}}


def test_only_the_last_runs_are_kept() -> None:
    store = Store()
    for number in range(KEPT_RUNS + 2):
        store.run(f"run-{number}").apply(SnapshotEvent(run=mid_run()[0], kernels=[]))
    assert store.run("run-0").detail is None
    assert store.run(f"run-{KEPT_RUNS + 1}").detail is not None


def test_lists_say_whether_they_changed() -> None:
    store = fill(Store(), [mid_run()])
    assert not store.set_lists(store.traces, store.runs)
    assert store.set_lists(store.traces[:1], store.runs)
    assert not store.needs_detail("demo-sm70")
    touched = store.traces[0].model_copy(update={"updated_at": NOW})
    store.set_lists([touched], store.runs)
    assert store.needs_detail("demo-sm70")
    assert not store.needs_detail("unknown")


# -- the log buffer --------------------------------------------------------------------------

LINES = [str(number) for number in range(60)]


@given(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 30))), st.integers(1, 80), st.integers(20, 400))
def test_a_buffer_holds_an_unbroken_piece_of_the_log(chunks: list[tuple[int, int]], most: int, chars: int) -> None:
    buffer = LogBuffer(max_lines=most, max_chars=chars)
    for first, count in chunks:
        before = (buffer.first, buffer.end)
        lines = LINES[first : first + count]
        changed = buffer.merge(first, lines)
        assert len(buffer) <= most
        assert buffer.slice(buffer.first, buffer.end) == LINES[buffer.first : buffer.end]
        assert buffer.end >= before[1] or not lines, "the newest line known is never lost"
        assert changed or (buffer.first, buffer.end) == before
        assert buffer.seen >= buffer.end


def test_a_gap_is_counted_and_the_newest_lines_are_kept() -> None:
    buffer = LogBuffer()
    buffer.merge(0, LINES[:10])
    buffer.merge(20, LINES[20:25])
    assert (buffer.first, buffer.end, buffer.gaps) == (20, 25, 1)
    buffer.merge(5, LINES[5:25])
    assert (buffer.first, buffer.end, buffer.gaps) == (5, 25, 1)


def test_long_lines_are_cut() -> None:
    buffer = LogBuffer()
    buffer.merge(0, ["x" * 100_000])
    assert len(buffer[0]) == MAX_LINE


def test_memory_stays_bounded() -> None:
    buffer = LogBuffer(max_lines=100, max_chars=10_000)
    for first in range(0, 10_000, 500):
        buffer.merge(first, ["y" * 50] * 500)
    assert len(buffer) == 100
    assert buffer.end == 10_000


@pytest.mark.parametrize("run", [mid_run()[0], finished_run()[0]])
def test_sims_come_in_the_order_of_the_entries(run: RunDetail) -> None:
    data = RunData(RUN_ID)
    data.apply(SnapshotEvent(run=run, kernels=[]))
    assert [sim.gpu_config for sim in data.sims] == [e.gpu_config for e in run.entries for _ in range(e.count)]

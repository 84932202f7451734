"""What the documents say beyond the endpoint table: groups of routes, notes on routes, and the meaning of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cascade_server.contract.endpoints import ENDPOINTS, Auth, Endpoint
from cascade_server.contract.states import RunState, SimState, TraceState


class Group(NamedTuple):
    """Routes that belong together."""

    title: str
    summary: str


TRACES = Group("Traces and GPU configs", "What can be simulated, and on what.")
RUNS = Group("Runs", "Launch sims of a trace, look at them, and take home what they found.")
SIMS = Group("Sims", "One simulator at a time: its log, its kernels, its files.")
EVENTS = Group("Events", "Server-sent events: follow a run, or the whole server, without polling.")
SERVER = Group("Server and documents", "Whether it serves, and how to use it. None of these needs a token.")
SIMULATORS = Group("For simulators only", "What a worker sends while its sim runs. Other clients must not call these.")
GROUPS = (TRACES, RUNS, SIMS, EVENTS, SERVER, SIMULATORS)


def group_of(endpoint: Endpoint) -> Group:
    """The group a route is shown in."""
    if endpoint.auth is Auth.SIM:
        return SIMULATORS
    if endpoint.auth is Auth.NONE:
        return SERVER
    if endpoint.media_type == "text/event-stream":
        return EVENTS
    if endpoint.path.startswith("/api/sims"):
        return SIMS
    return RUNS if endpoint.path.startswith("/api/runs") else TRACES


def grouped() -> list[tuple[Group, list[Endpoint]]]:
    """All routes, by group, in the table's order."""
    return [(group, [e for e in ENDPOINTS.values() if group_of(e) is group]) for group in GROUPS]


NOTES: Mapping[str, str] = {
    "health": "Looks at nothing but the process itself: traces, launcher and disk are not checked. `auth` tells "
    "whether the other routes want a token.",
    "traces": "By `created_at`. A trace appears with its first file; only a `ready` one can be run.",
    "gpu_configs": "Read once, when the server starts. Folders whose name or clock can't be read are left out.",
    "create_run": "The sims come back `pending` or `launching`. A second call makes a second run: after a network "
    "error look through `GET /api/runs` before you send it again.",
    "cancel_run": "The launcher is asked to stop what runs. Calling it again changes nothing.",
    "run_kernels": "`stats` is empty here; `GET /api/sims/{sim_id}/kernels/{kernel_index}` has it.",
    "run_comparison": "Row i holds the i-th kernel that each sim finished and the i-th row of real timing by "
    "`kernel_id`. A config's time is the median over its replicas that finished that kernel, failed sims included.",
    "run_accuracy": "Compares the rows of the comparison that have both times; what could not be matched is listed "
    "with its reason.",
    "run_step_timelines": "Empty until a sim of the run succeeded on a trace that has a step timeline.",
    "run_results": "Streamed. Full statistics are 30 to 300 KB for each kernel.",
    "run_perfetto": "An object with `traceEvents`, `displayTimeUnit` and `otherData`, for ui.perfetto.dev and similar "
    "viewers. A finished kernel is one slice; slices lie end to end by `sim_time_ns`; `ts` and `dur` are µs.",
    "run_events": "The first event is a `snapshot`; `sim`, `log` and `kernel` follow as they happen. After 15 s of "
    "silence comes the comment `: keepalive`. The stream does not end with the run. Send `Last-Event-ID` to go on "
    "where a stream broke off; an id that is too old gets a new snapshot.",
    "server_events": "The first event is a `snapshot`; `run`, `trace` and `trace_gone` follow. Keepalive and "
    "`Last-Event-ID` are as for the events of one run.",
    "sim_results": "Streamed. A config that is gone has arch `unknown` and clock 0.",
    "sim_log": "Streamed, every line in its order. With `tail` the header `X-Cascade-First-Line` holds the number, "
    "from 0, of the first line sent.",
    "sim_file": "With the content type it was stored under; a `.gz` is `application/gzip` and stays packed. Ranges "
    "work.",
    "openapi": "Made from the server's own table of routes and types.",
    "docs": "Works offline: it loads nothing from elsewhere.",
    "heartbeat": "`running` clears `error`, and the first one sets `started_at`. On a finished sim it changes "
    "nothing. The answer's `cancel` asks the worker to stop.",
    "post_logs": "`seq` counts the lines sent before this chunk. A repeat or an overlap is dropped; a gap is refused "
    "with the `next_seq` wanted: so every line arrives exactly once.",
    "put_file": "The body is the file. Nothing of it can be seen until all of it has arrived.",
}
"""More on a route than its summary, by the route's name. Backticks mark code."""

SIM_STATES: Mapping[SimState, str] = {
    SimState.PENDING: "waits for its turn",
    SimState.LAUNCHING: "handed to the launcher, not heard of yet",
    SimState.RUNNING: "sends heartbeats",
    SimState.LOST: "silent for too long; may come back, and fails if it never does",
    SimState.SUCCEEDED: "every kernel finished",
    SimState.FAILED: "ended without that; `error` says why",
    SimState.CANCELLED: "stopped on request",
}
RUN_STATES: Mapping[RunState, str] = {
    RunState.ACTIVE: "at least one sim is unfinished",
    RunState.SUCCEEDED: "all sims succeeded",
    RunState.PARTIAL: "all finished, some succeeded and some did not",
    RunState.FAILED: "all failed",
    RunState.CANCELLED: "all finished, none succeeded, at least one was cancelled",
}
TRACE_STATES: Mapping[TraceState, str] = {
    TraceState.UPLOADING: "files are arriving",
    TraceState.PROCESSING: "the post-processor is at work",
    TraceState.READY: "can be run, unless it is a sample",
    TraceState.FAILED: "`error` says whether the profiler or the post-processor failed",
}

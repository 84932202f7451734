"""The one table of routes.

The router registers it, the client calls by it, documents are built from it, and tests walk it.
Whatever a route takes or gives stands here or in `models`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from . import analysis as a
from . import models as m


class Auth(StrEnum):
    """Who may call a route."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - a word, no secret
    TOKEN_OR_QUERY = "token or query"  # noqa: S105
    SIM = "sim"
    """The sim's own token, or the main one."""


@dataclass(frozen=True, slots=True)
class Query:
    """An optional query parameter."""

    name: str
    type: type
    summary: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route.

    `response` is a model, `list[model]`, or None for `media_type` bytes. `errors` maps each further status
    to its meaning; 401 (unless `auth` is none) and 405 go without saying.
    """

    name: str
    method: str
    path: str
    summary: str
    response: Any = None
    status: int = 200
    body: type[BaseModel] | None = None
    raw_body: bool = False
    media_type: str = "application/json"
    attachment: str | None = None
    query: tuple[Query, ...] = ()
    errors: Mapping[int, str] = field(default_factory=dict)
    auth: Auth = Auth.TOKEN

    def url(self, **params: str) -> str:
        """Fill in the path's parameters, quoted so that none can leave its segment."""
        return self.path.format(**{name: quote(value, safe="") for name, value in params.items()})


NO_TRACE = {404: "No such trace."}
NO_RUN = {404: "No such run."}
NO_SIM = {404: "No such sim."}
BAD_BODY = {413: "The body is too large.", 422: "The body is no JSON or does not fit the model."}

_ALL = (
    Endpoint("health", "GET", "/api/health", "Whether the server serves.", response=m.Health, auth=Auth.NONE),
    Endpoint(
        "traces",
        "GET",
        "/api/traces",
        "All traces in every state, newest first.",
        response=list[m.TraceSummary],
    ),
    Endpoint(
        "trace",
        "GET",
        "/api/traces/{trace_id}",
        "One trace with its metadata and kernels.",
        response=m.TraceDetail,
        errors=NO_TRACE,
    ),
    Endpoint(
        "gpu_configs",
        "GET",
        "/api/gpu-configs",
        "The GPU configs that sims can run on, by name.",
        response=list[m.GpuConfig],
    ),
    Endpoint(
        "create_run",
        "POST",
        "/api/runs",
        "Launch sims of one trace on one or more configs; answers before any sim starts.",
        body=m.RunCreate,
        response=m.RunDetail,
        status=201,
        errors={
            **NO_TRACE,
            **BAD_BODY,
            409: "The trace is not ready, or is a sample without instruction traces.",
            422: "The body is no JSON or does not fit the model, a config is unknown, or its arch is not the trace's.",
        },
    ),
    Endpoint("runs", "GET", "/api/runs", "All runs, newest first.", response=list[m.RunSummary]),
    Endpoint("run", "GET", "/api/runs/{run_id}", "One run with its sims.", response=m.RunDetail, errors=NO_RUN),
    Endpoint(
        "cancel_run",
        "POST",
        "/api/runs/{run_id}/cancel",
        "Cancel every unfinished sim of a run; finished ones keep their state. Repeatable.",
        response=m.RunDetail,
        errors=NO_RUN,
    ),
    Endpoint(
        "run_kernels",
        "GET",
        "/api/runs/{run_id}/kernels",
        "Every kernel the run's sims finished, by config, replica and order, without stats.",
        response=list[m.KernelStat],
        errors=NO_RUN,
    ),
    Endpoint(
        "run_comparison",
        "GET",
        "/api/runs/{run_id}/comparison",
        "The run's kernels side by side over its configs, with real timing where there is one.",
        response=m.Comparison,
        errors=NO_RUN,
    ),
    Endpoint(
        "run_accuracy",
        "GET",
        "/api/runs/{run_id}/accuracy",
        "Addition: per config, how well simulated times agree with real hardware.",
        response=a.RunAccuracy,
        errors=NO_RUN,
    ),
    Endpoint(
        "run_step_timelines",
        "GET",
        "/api/runs/{run_id}/step-timelines",
        "Predicted step timelines, by config and replica.",
        response=list[m.SimStepTimeline],
        errors=NO_RUN,
    ),
    Endpoint(
        "run_results",
        "GET",
        "/api/runs/{run_id}/results",
        "Everything the run found, with full statistics.",
        response=m.RunResults,
        attachment="{run_id}-results.json",
        errors=NO_RUN,
    ),
    Endpoint(
        "run_files",
        "GET",
        "/api/runs/{run_id}/files",
        "The output files of all the run's sims, by config, replica and name.",
        response=list[m.RunFile],
        errors=NO_RUN,
    ),
    Endpoint(
        "run_perfetto",
        "GET",
        "/api/runs/{run_id}/perfetto",
        "The run as a Chrome trace: config = process, replica = thread, kernel = slice.",
        response=dict[str, Any],
        attachment="{run_id}-perfetto.json",
        errors=NO_RUN,
    ),
    Endpoint(
        "run_events",
        "GET",
        "/api/runs/{run_id}/events",
        "A snapshot, then every change of the run as it happens; stays open.",
        media_type="text/event-stream",
        query=(Query("token", str, "The token; counts instead of the header."),),
        errors=NO_RUN,
        auth=Auth.TOKEN_OR_QUERY,
    ),
    Endpoint(
        "server_events",
        "GET",
        "/api/events",
        "Addition: a snapshot of all runs and traces, then their changes as they happen; stays open.",
        media_type="text/event-stream",
        query=(Query("token", str, "The token; counts instead of the header."),),
        auth=Auth.TOKEN_OR_QUERY,
    ),
    Endpoint(
        "sim_results",
        "GET",
        "/api/sims/{sim_id}/results",
        "Everything one sim found, with full statistics.",
        response=m.SimResults,
        attachment="{sim_id}-results.json",
        errors=NO_SIM,
    ),
    Endpoint(
        "sim_kernel",
        "GET",
        "/api/sims/{sim_id}/kernels/{kernel_index}",
        "Addition: one kernel with all its statistics, each with this kernel's own share.",
        response=a.KernelDetail,
        errors={404: "No such sim, or it has not finished such a kernel."},
    ),
    Endpoint(
        "sim_log",
        "GET",
        "/api/sims/{sim_id}/log",
        "The simulator's log as it was printed, byte for byte.",
        media_type="text/plain",
        attachment="{sim_id}.log",
        query=(Query("tail", int, "Addition: only the last N lines; X-Cascade-First-Line tells where they begin."),),
        errors={**NO_SIM, 422: "`tail` is no whole number of at least 0."},
    ),
    Endpoint(
        "sim_files",
        "GET",
        "/api/sims/{sim_id}/files",
        "The files a sim left, by name.",
        response=list[m.SimFile],
        errors=NO_SIM,
    ),
    Endpoint(
        "sim_file",
        "GET",
        "/api/sims/{sim_id}/files/{name}",
        "One file a sim left, as a download.",
        media_type="application/octet-stream",
        errors={404: "No such sim or file."},
    ),
    Endpoint(
        "openapi",
        "GET",
        "/api/openapi.json",
        "Addition: this API as an OpenAPI 3.1 document.",
        response=dict[str, Any],
        auth=Auth.NONE,
    ),
    Endpoint("docs", "GET", "/docs", "Addition: the API reference, a page.", media_type="text/html", auth=Auth.NONE),
    Endpoint(
        "agent_prompt",
        "GET",
        "/agent-prompt.md",
        "Addition: what an AI agent needs to know to work with this server.",
        media_type="text/markdown",
        auth=Auth.NONE,
    ),
    Endpoint(
        "agent_skill",
        "GET",
        "/cascade-skill/SKILL.md",
        "Addition: the same as a skill, with a name and a description.",
        media_type="text/markdown",
        auth=Auth.NONE,
    ),
    Endpoint(
        "llms_txt",
        "GET",
        "/llms.txt",
        "Addition: a short table of contents for language models.",
        media_type="text/plain",
        auth=Auth.NONE,
    ),
    Endpoint(
        "llms_full_txt",
        "GET",
        "/llms-full.txt",
        "Addition: the prompt and the whole API reference in one text.",
        media_type="text/plain",
        auth=Auth.NONE,
    ),
    Endpoint(
        "heartbeat",
        "POST",
        "/api/sims/{sim_id}/heartbeat",
        "For simulators: a sign of life, or the last word.",
        body=m.Heartbeat,
        response=m.HeartbeatReply,
        errors={**NO_SIM, **BAD_BODY},
        auth=Auth.SIM,
    ),
    Endpoint(
        "post_logs",
        "POST",
        "/api/sims/{sim_id}/logs",
        "For simulators: the next lines; a repeat is dropped, a gap refused.",
        body=m.LogChunk,
        response=m.LogReply,
        errors={**NO_SIM, **BAD_BODY, 409: "Lines are missing before this chunk; `next_seq` is wanted."},
        auth=Auth.SIM,
    ),
    Endpoint(
        "post_step_timeline",
        "POST",
        "/api/sims/{sim_id}/step-timeline",
        "For simulators: the predicted step timeline.",
        body=m.StepTimelineBody,
        status=204,
        errors={**NO_SIM, **BAD_BODY},
        auth=Auth.SIM,
    ),
    Endpoint(
        "put_file",
        "PUT",
        "/api/sims/{sim_id}/files/{name}",
        "For simulators: store a file; a re-put replaces it at once or not at all.",
        raw_body=True,
        response=m.SimFile,
        errors={**NO_SIM, 413: "The file is too large.", 422: "The name is not allowed."},
        auth=Auth.SIM,
    ),
)

ENDPOINTS: Mapping[str, Endpoint] = {endpoint.name: endpoint for endpoint in _ALL}
"""Every route by its name."""

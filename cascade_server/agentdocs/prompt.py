"""The agent prompt: how to work a Cascade server with curl and python3."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import TypeVar

from cascade_server.contract.endpoints import ENDPOINTS, Auth, Endpoint

from .notes import RUN_STATES, SIM_STATES, TRACE_STATES
from .plain import without_mark
from .templating import fill

State = TypeVar("State", bound=StrEnum)

STEPS = {
    "health", "traces", "trace", "gpu_configs", "create_run", "runs", "run", "cancel_run", "run_kernels",
    "run_comparison", "run_accuracy", "sim_log",
}  # fmt: skip
"""The routes that the prompt's own commands call."""


@cache
def text() -> str:
    """agent-prompt.md."""
    simulators = [e for e in ENDPOINTS.values() if e.auth is Auth.SIM]
    others = [e for e in ENDPOINTS.values() if e.auth not in (Auth.SIM, Auth.NONE) and e.name not in STEPS]
    return fill(
        "prompt.md",
        {
            "simulator_routes": ", ".join(f"`{e.method} {e.path}`" for e in simulators),
            "other_routes": "\n".join(map(_line, others)),
            "sim_states": _states(SIM_STATES),
            "run_states": _states(RUN_STATES),
            "trace_states": f"A trace is {_states(TRACE_STATES)}.",
        },
    )


def _line(endpoint: Endpoint) -> str:
    return f"- `{endpoint.method} {endpoint.path}`: {without_mark(endpoint.summary)}"


def _states(meanings: Mapping[State, str]) -> str:
    words = [f"`{state.value}` ({meaning})" for state, meaning in meanings.items()]
    return ", ".join(words[:-1]) + f" or {words[-1]}"

"""What a first start shows: bundled traces, and recorded simulations of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent
TRACES = ROOT / "traces"
RECORDINGS = ROOT / "recordings"

DEMO_TRACE = "demo-sm70"
SAMPLE_TRACE = "sample-layers4-sm80"

TRUE_RECORDINGS: Mapping[tuple[str, str], str] = {
    (DEMO_TRACE, "SM7_QV100"): "ok-demo-qv100",
    (DEMO_TRACE, "SM7_GV100"): "ok-demo-gv100",
    (DEMO_TRACE, "SM7_TITANV"): "ok-demo-titanv",
    (SAMPLE_TRACE, "SM80_A100"): "ok-layers4-a100",
}
"""Recordings that are real simulations of that bundled trace on that config."""

STAND_IN = "ok-demo-qv100"
"""What is replayed for any other trace or config; its numbers describe neither."""


def recording_path(name: str) -> Path:
    """The file of a bundled recording."""
    return RECORDINGS / f"{name}.log.xz"

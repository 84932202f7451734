"""An invented step timeline for the demo trace, and the trace's folder with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.recordings import TRUTH

DEMO = Path(__file__).parents[2] / "cascade_server" / "samples" / "traces" / "demo-sm70"
QV100_MHZ = 1132.0

TIMELINE: dict[str, Any] = {
    "steps": [
        {
            "index": 0,
            "kind": "prefill",
            "start_ns": 1000,
            "end_ns": 101000,
            "requests": ["r0"],
            "kernels": [
                {"key": "gemm<128>", "duration_ns": 20000},
                {"key": "softmax", "duration_ns": 30000.5},
                {"key": "memset", "duration_ns": 10000},
            ],
        },
        {
            "index": 1,
            "kind": "decode",
            "start_ns": 121000,
            "end_ns": 151000,
            "requests": ["r0", "r1"],
            "kernels": [{"key": "gemm<128>", "duration_ns": 25000}],
        },
        {"index": 2, "kind": "decode", "start_ns": 151000, "end_ns": 181000, "requests": ["r1"], "kernels": []},
    ]
}
MAPPING: dict[str, Any] = {"kernels": {"gemm<128>": 1, "softmax": 12}}


def demo_ns(kernel_id: int) -> float:
    """What the recording ok-demo-qv100 says a kernel of the demo trace takes."""
    cycles: int = TRUTH["ok-demo-qv100"]["kernels"][kernel_id - 1]["gpu_sim_cycle"]
    return cycles / QV100_MHZ * 1000


def demo_trace(folder: Path, *, timeline: Any = TIMELINE, mapping: Any = MAPPING) -> Path:
    """The demo trace with these files; a text is written as it is, None not at all."""
    shutil.copytree(DEMO, folder)
    for name, content in (("corrected_timeline.json", timeline), ("kernel_mapping.json", mapping)):
        if content is not None:
            (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder

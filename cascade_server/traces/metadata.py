"""A trace's metadata.json, read leniently: people and profilers write it, and it may be half-written when seen."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

MAX_BYTES = 4 << 20
MAX_DEPTH = 100
"""The server's own answers can't nest deeper than about 250."""

DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """What the server uses of it; `raw` keeps every key. A value of a wrong type counts as missing.

    `status` is in lower case.
    """

    status: str | None = None
    error: str | None = None
    model: str | None = None
    layers: tuple[str, ...] = ()
    gpu: str | None = None
    trace_gpu_arch: str = DEFAULT_ARCH
    suggested_sim_config: str | None = None
    real_gpu_config: str | None = None
    sample_sim_configs: tuple[str, ...] = ()
    sample_set: str | None = None
    sample: bool = False
    demo: bool = False
    raw: dict[str, Any] = field(default_factory=dict)


def parse_metadata(data: bytes) -> TraceMetadata | str:
    """The metadata, or one sentence why it can't be used (yet). Never raises.

    Numbers that JSON has no word for (NaN, Infinity, 1e999) are kept as their text, characters that UTF-8 has no
    code for become `?`.
    """
    if len(data) > MAX_BYTES:
        return f"metadata.json is larger than {MAX_BYTES >> 20} MiB."
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "metadata.json is not UTF-8 text (or not whole yet)."
    try:
        raw = _load(text)
        if _depth(raw) > MAX_DEPTH:
            return f"metadata.json nests deeper than {MAX_DEPTH} levels."
        if "\\u" in text:
            raw = _load(json.dumps(raw, ensure_ascii=False).encode("utf-8", "replace").decode())
    except RecursionError:
        return f"metadata.json nests deeper than {MAX_DEPTH} levels."
    except json.JSONDecodeError as error:
        # Where, never what: the file may be a link to one that nobody should see.
        return f"metadata.json is not valid JSON (or not whole yet), at line {error.lineno}, column {error.colno}."
    except ValueError:
        return "metadata.json is not valid JSON: a number in it has too many digits."
    return _typed(raw) if isinstance(raw, dict) else "metadata.json holds no JSON object."


def _load(text: str) -> Any:
    return json.loads(text, parse_constant=str, parse_float=_finite)


def _finite(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _depth(value: object) -> int:
    """Levels of objects and lists; stops counting one past MAX_DEPTH. Without recursion, which has its own limit."""
    depth = 0
    level = [value]
    while depth <= MAX_DEPTH:
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        if not any(isinstance(item, dict | list) for item in level):
            break
        depth += 1
        level = below
    return depth


def _typed(raw: dict[str, Any]) -> TraceMetadata:
    status = _text(raw.get("status"))
    return TraceMetadata(
        status=status.strip().lower() if status else None,
        error=_text(raw.get("error")),
        model=_text(raw.get("model")),
        layers=_texts(raw.get("layers")),
        gpu=_text(raw.get("gpu")),
        trace_gpu_arch=_text(raw.get("trace_gpu_arch")) or DEFAULT_ARCH,
        suggested_sim_config=_text(raw.get("suggested_sim_config")),
        real_gpu_config=_text(raw.get("real_gpu_config")),
        sample_sim_configs=_texts(raw.get("sample_sim_configs")),
        sample_set=_text(raw.get("sample_set")),
        sample=raw.get("sample") is True,
        demo=raw.get("demo") is True,
        raw=raw,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...]:
    """A list of texts; numbers become text (layers are often given as 0, 1, 2), one value alone is a list of one."""
    items = value if isinstance(value, list) else [value]
    return tuple(
        str(item)
        for item in items
        if (isinstance(item, str) and item) or (isinstance(item, int | float) and not isinstance(item, bool))
    )

"""A trace's metadata.json, read leniently: people and profilers write it, and it may be half-written when seen."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAX_BYTES = 4 << 20
DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """What the server uses of it; `raw` keeps every key. A value of a wrong type counts as missing."""

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


def read_metadata(path: Path) -> TraceMetadata | str:
    """The metadata, or the reason why it can't be read (yet). Raises FileNotFoundError alone."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        return f"metadata.json can't be read: {error.strerror}"
    if len(data) > MAX_BYTES:
        return f"metadata.json is larger than {MAX_BYTES >> 20} MiB"
    try:
        raw = json.loads(data.decode("utf-8"), parse_constant=str)
        # What can't be sent again as JSON is no metadata: lone surrogates, numbers beyond a float.
        json.dumps(raw, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return f"metadata.json is no valid JSON ({error})"
    if not isinstance(raw, dict):
        return "metadata.json holds no object"
    return _typed(raw)


def _typed(raw: dict[str, Any]) -> TraceMetadata:
    return TraceMetadata(
        status=_text(raw.get("status")),
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
    if isinstance(value, bool):
        return None
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(text for item in value if (text := _text(item)) is not None)

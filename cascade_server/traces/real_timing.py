"""real_timing.json: how long each kernel took on real hardware. Read leniently: people and importers write it."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path

from cascade_server.contract.models import INT64_MAX
from cascade_server.contract.text import display_text

from .folder import read_file

log = logging.getLogger(__name__)

FILE_NAME = "real_timing.json"
MAX_BYTES = 64 << 20
"""Some 400,000 kernels; a larger file is refused rather than held in memory."""


@dataclass(frozen=True, slots=True)
class RealKernel:
    """One kernel as it ran on hardware; `duration_ns` is None where the file has none that is a time."""

    kernel_id: int
    name: str
    duration_ns: float | None


def read_real_timing(folder: Path) -> tuple[RealKernel, ...] | None:
    """The kernels of `<folder>/real_timing.json` by kernel_id; None when there is none that can be read.

    Format: `{"kernels": [{"kernel_id": 1, "name": "…", "duration_ns": 5123.0}, …]}`. A row without a whole
    kernel_id is skipped, and so is a repeated id; a row whose duration is no number, negative or not finite keeps its
    place without a time, since kernels are matched by order. Never raises; what is wrong goes to the log, once a call.
    """
    path = folder / FILE_NAME
    try:
        raw = _read(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        log.warning("%s is left out: %s", path, reason)
        return None
    rows = raw.get("kernels") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        log.warning('%s is left out: it holds no list "kernels"', path)
        return None
    found: dict[int, RealKernel] = {}
    for row in rows:
        kernel = _kernel(row)
        if kernel is not None:
            found.setdefault(kernel.kernel_id, kernel)
    if len(found) < len(rows):
        log.warning(
            "%s: %d of %d rows are left out: no whole kernel_id of their own", path, len(rows) - len(found), len(rows)
        )
    return tuple(found[kernel_id] for kernel_id in sorted(found))


def _read(path: Path) -> object:
    data = read_file(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    return json.loads(data.decode("utf-8-sig"))


def _kernel(row: object) -> RealKernel | None:
    if not isinstance(row, dict):
        return None
    kernel_id, name = row.get("kernel_id"), row.get("name")
    if isinstance(kernel_id, float) and kernel_id.is_integer():
        kernel_id = int(kernel_id)
    if not isinstance(kernel_id, int) or isinstance(kernel_id, bool) or abs(kernel_id) > INT64_MAX:
        return None
    return RealKernel(kernel_id, display_text(name) if isinstance(name, str) else "", _duration(row.get("duration_ns")))


def _duration(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        duration = float(value)
    except OverflowError:
        return None
    return duration if math.isfinite(duration) and duration >= 0 else None

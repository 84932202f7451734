"""Traces as folders in a folder.

A trace is a folder with files in it, its name the trace's id. Only names and sizes of kernel files are looked at, so a
folder of 60 GB is read in no time; small files (metadata, lists, statistics) are read again only when they changed.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cascade_server.contract.models import TRACE_ID, KernelLaunch, TraceDetail
from cascade_server.contract.states import TraceState

from .adopted import arch_of_first_kernel
from .kernelslist import KernelsList, parse_kernelslist
from .metadata import TraceMetadata, read_metadata
from .stats_ctx import parse_stats

log = logging.getLogger(__name__)

MAX_TEXT_BYTES = 64 << 20
LIST_PLACES = ("traces/kernelslist.g", "kernelslist.g")

Files = Mapping[str, tuple[int, int]]
"""Of each file, by its path below the trace's folder: size in bytes, mtime in ns."""


@dataclass(frozen=True, slots=True)
class TraceScan:
    """What a folder says of its trace."""

    id: str
    path: Path
    state: TraceState
    error: str | None
    metadata: TraceMetadata
    has_metadata: bool
    kernel_count: int
    bytes: int
    has_real_timing: bool
    has_step_timeline: bool
    sample: bool
    demo: bool
    kernels: tuple[KernelLaunch, ...] = field(repr=False)
    files: Files = field(repr=False)

    def detail(self, created_at: datetime, updated_at: datetime) -> TraceDetail:
        """As it is sent."""
        known = self.metadata
        return TraceDetail(
            id=self.id,
            state=self.state,
            error=self.error,
            created_at=created_at,
            updated_at=updated_at,
            model=known.model,
            layers=list(known.layers),
            source_gpu=known.gpu,
            trace_gpu_arch=known.trace_gpu_arch,
            suggested_sim_config=known.suggested_sim_config,
            real_gpu_config=known.real_gpu_config,
            sample_sim_configs=list(known.sample_sim_configs),
            sample_set=known.sample_set,
            kernel_count=self.kernel_count,
            bytes=self.bytes,
            has_real_timing=self.has_real_timing,
            has_step_timeline=self.has_step_timeline,
            sample=self.sample,
            demo=self.demo,
            metadata=known.raw if self.has_metadata else None,
            kernels=list(self.kernels),
        )


def scan(root: Path, *, previous: Mapping[str, TraceScan], bundled: bool = False) -> dict[str, TraceScan]:
    """Look at every folder of `root`; `previous` is the last result, whose unchanged traces are taken over.

    `bundled` folders may mark themselves as `sample` or `demo` in their metadata. Raises OSError when the root itself
    can't be read; anything wrong within a folder is that trace's error.
    """
    found: dict[str, TraceScan] = {}
    with os.scandir(root) as entries:
        folders = sorted(entry.name for entry in entries if _is_folder(entry))
    for name in folders:
        if not re.fullmatch(TRACE_ID, name):
            continue
        files = _files(root / name)
        if not files:
            continue
        old = previous.get(name)
        if old is not None and old.files == files and old.state is not TraceState.UPLOADING:
            found[name] = old
        else:
            found[name] = _look(root / name, files, old, bundled=bundled)
    return found


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_dir()
    except OSError:
        return False


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Regular files in the folder and in its `traces`; links to elsewhere are followed, as users link large traces."""
    found: dict[str, tuple[int, int]] = {}
    for prefix in ("", "traces/"):
        try:
            with os.scandir(folder / prefix) as entries:
                for entry in entries:
                    try:
                        info = entry.stat()
                    except OSError:
                        continue  # vanished, or a link to nowhere
                    if stat.S_ISREG(info.st_mode):
                        found[prefix + entry.name] = (info.st_size, info.st_mtime_ns)
        except OSError:
            continue
    return found


def _look(folder: Path, files: Files, old: TraceScan | None, *, bundled: bool) -> TraceScan:
    metadata: TraceMetadata | str | None
    try:
        metadata = read_metadata(folder / "metadata.json") if "metadata.json" in files else None
    except FileNotFoundError:
        metadata = None
    known = metadata if isinstance(metadata, TraceMetadata) else TraceMetadata()
    sample = bundled and known.sample
    place = next((place for place in LIST_PLACES if place in files), None)
    if metadata is None and place is not None:
        known = _adopted(folder, place, files)
        # No metadata will say when all is there: the files must have been still for two looks.
        metadata = known if old is not None and old.files == files else None
    state, error, listed = _judge(folder, files, metadata, place, sample=sample)
    kernels = _kernels(folder, files, listed) if state is TraceState.READY and listed else ()
    return TraceScan(
        id=folder.name,
        path=folder,
        state=state,
        error=error,
        metadata=known,
        has_metadata="metadata.json" in files,
        kernel_count=len(listed.kernels) if listed else sum(1 for name in files if _is_kernel(name)),
        bytes=sum(size for size, _ in files.values()),
        has_real_timing="real_timing.json" in files,
        has_step_timeline="corrected_timeline.json" in files and "kernel_mapping.json" in files,
        sample=sample,
        demo=bundled and known.demo,
        kernels=kernels,
        files=files,
    )


def _judge(
    folder: Path, files: Files, metadata: TraceMetadata | str | None, place: str | None, *, sample: bool
) -> tuple[TraceState, str | None, KernelsList | None]:
    if metadata is None or isinstance(metadata, str):
        return TraceState.UPLOADING, metadata, None
    if metadata.status == "failed":
        return TraceState.FAILED, metadata.error or "metadata.json says that the trace failed.", None
    if metadata.status == "uploading" or (metadata.status is None and place is None):
        return TraceState.UPLOADING, None, None
    if place is None:
        return TraceState.FAILED, _not_processed(files), None
    text = _read_text(folder / place)
    if text is None:
        return TraceState.FAILED, f"{place} can't be read.", None
    listed = parse_kernelslist(text)
    error = _list_error(listed, files, place, sample=sample)
    return (TraceState.FAILED if error else TraceState.READY), error, listed


def _not_processed(files: Files) -> str:
    raw = sum(1 for name in files if re.search(r"kernel-\d+.*\.trace(\.xz)?$", name))
    what = f"{raw} raw kernel traces and no kernelslist.g" if raw else "no kernelslist.g"
    return (
        f"The trace is not post-processed: there are {what}. Run Accel-Sim's post-traces-processing on the folder "
        "traces, then it becomes ready by itself."
    )


def _list_error(listed: KernelsList, files: Files, place: str, *, sample: bool) -> str | None:
    if listed.unsafe:
        return (
            f"{place} names {listed.unsafe[0]!r}: only letters, digits, '.', '_' and '-' are allowed, since the "
            "simulator hands these names to a shell."
        )
    if not listed.kernels:
        return f"{place} names no kernel."
    prefix = place.removesuffix("kernelslist.g")
    missing = [k.file for k in listed.kernels if prefix + k.file not in files]
    if not missing or sample:
        return None
    first = missing[0]
    other = next((first + end for end in (".xz", ".gz", ".zst") if prefix + first + end in files), None)
    hint = f" ({other} is there: was it compressed after the list was written?)" if other else ""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{place} lists {first}{more}, which is not in the folder{hint}."


def _kernels(folder: Path, files: Files, listed: KernelsList) -> tuple[KernelLaunch, ...]:
    names = sorted(name for name in files if re.fullmatch(r"(traces/)?(stats_ctx_\w+|stats(_ctx_\w+)?\.csv)", name))
    rows: dict[int, KernelLaunch] = {}
    contexts = {match[0] for k in listed.kernels if (match := re.search(r"ctx_0x[0-9a-f]+", k.file))}
    for name in names:
        # With several contexts, only the rows of the one that is listed.
        if contexts and "ctx_" in name and not any(context in name for context in contexts):
            continue
        for row in parse_stats(_read_text(folder / name) or ""):
            rows.setdefault(row.kernel_id, row)
    ids = {k.kernel_id for k in listed.kernels}
    return tuple(rows[kernel_id] for kernel_id in sorted(rows) if kernel_id in ids)


def _adopted(folder: Path, place: str, files: Files) -> TraceMetadata:
    listed = parse_kernelslist(_read_text(folder / place) or "")
    prefix = place.removesuffix("kernelslist.g")
    first = next((k.file for k in listed.kernels if prefix + k.file in files and k.file not in listed.unsafe), None)
    arch = arch_of_first_kernel(folder / (prefix + first)) if first is not None else None
    return TraceMetadata(status="complete") if arch is None else TraceMetadata(status="complete", trace_gpu_arch=arch)


def _is_kernel(name: str) -> bool:
    return re.search(r"(^|/)kernel-\d+.*\.trace[gz]?(\.xz)?$", name) is not None


def _read_text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return None

"""Traces as folders in a folder.

A trace is a folder with files in it, its name the trace's id. Of kernel files only names and sizes are looked at, so a
folder of 60 GB is read in no time; small files (metadata, lists, statistics) are read again only when they changed.
Only files in the folder itself and in its `traces` belong to the trace. A trace, its `traces` and its kernel files may
be links to elsewhere; a metadata.json that leads out is refused, since all that it holds is shown.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cascade_server.contract.models import TRACE_ID, KernelLaunch, TraceDetail
from cascade_server.contract.states import TraceState

from .adopted import archs_of_kernels
from .folder import LIST_FOLDER, Folder, list_folder
from .kernelslist import KernelsList, list_problem, parse_kernelslist
from .metadata import MAX_BYTES, TraceMetadata, parse_metadata
from .stats_ctx import parse_stats

log = logging.getLogger(__name__)

MAX_TEXT_BYTES = 32 << 20
"""Of a list or a statistics file: far above 100,000 kernels."""

METADATA = "metadata.json"
LIST = "kernelslist.g"
_LEADS_OUT = f"{METADATA} is a link that leads out of the trace's folder: copy the file instead."
_STATS = re.compile(r"stats(?:_(ctx_0x[0-9a-fA-F]+))?(?:\.csv)?")
_KERNEL_FILE = re.compile(r"(?:traces/)?(kernel-[0-9]+.*)\.trace([gz]?)(?:\.xz)?")
_MAX_COMPLAINTS = 1000
_complained: set[str] = set()


@dataclass(frozen=True, slots=True)
class TraceScan:
    """What a folder says of its trace.

    `metadata` is None when there is no metadata.json or it can't be read. `kernel_count` is the number of listed
    kernels, or of kernel files seen while there is no list to go by. `bytes` is the size of all files. `fingerprint`
    stands for all names, sizes and mtimes; `retry` says that a file could not be read, so that there is more to see
    though nothing changes. `notes` are sentences that don't keep the trace from being simulated.
    """

    id: str
    path: Path
    state: TraceState
    error: str | None
    metadata: TraceMetadata | None = field(repr=False)
    trace_gpu_arch: str
    kernel_count: int
    bytes: int
    has_real_timing: bool
    has_step_timeline: bool
    sample: bool
    demo: bool
    kernels: tuple[KernelLaunch, ...] = field(repr=False)
    fingerprint: str = field(repr=False)
    retry: bool = field(default=False, repr=False)
    notes: tuple[str, ...] = ()

    def detail(self, created_at: datetime, updated_at: datetime) -> TraceDetail:
        """As it is sent."""
        known = self.metadata or TraceMetadata()
        return TraceDetail(
            id=self.id,
            state=self.state,
            error=self.error,
            created_at=created_at,
            updated_at=updated_at,
            model=known.model,
            layers=list(known.layers),
            source_gpu=known.gpu,
            trace_gpu_arch=self.trace_gpu_arch,
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
            warnings=list(self.notes),
            metadata=self.metadata.raw if self.metadata else None,
            kernels=list(self.kernels),
        )


@dataclass(frozen=True, slots=True)
class _Verdict:
    state: TraceState
    error: str | None = None
    listed: KernelsList | None = None
    retry: bool = False


def scan(
    root: Path,
    *,
    previous: Mapping[str, TraceScan] | None = None,
    settled: Mapping[str, int] | None = None,
    bundled: bool = False,
) -> dict[str, TraceScan]:
    """Look once at every folder of `root`, and give the traces by id.

    `previous` is the last result: traces unchanged since are taken over, and whether files still arrive is seen by
    it. `settled` gives the bytes of traces that were found still before the server started. Folders of the `bundled`
    root may mark themselves as `sample` or `demo` in their metadata. A folder whose name can't be an id is skipped and
    logged once. Raises OSError when the root itself can't be read; anything wrong within a folder is that trace's
    error.
    """
    previous = previous or {}
    settled = settled or {}
    found: dict[str, TraceScan] = {}
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if _is_candidate(entry))
    for name in names:
        old = previous.get(name)
        try:
            folder = list_folder(root / name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            found[name] = _unreadable(root / name, error)
            continue
        if not folder.sizes:
            continue
        if old is None:
            still = settled.get(name) == sum(folder.sizes.values())
        else:
            still = old.fingerprint == folder.fingerprint
        if old is not None and still and old.state is not TraceState.UPLOADING and not old.retry:
            found[name] = old
        else:
            found[name] = _look(folder, still=still, bundled=bundled)
    return found


def _is_candidate(entry: os.DirEntry[str]) -> bool:
    try:
        if entry.name.startswith(".") or not entry.is_dir():
            return False
        if not re.fullmatch(TRACE_ID, entry.name):
            _complain(entry.path, "a trace's name may hold only letters, digits, '.', '_' and '-', 128 at most")
            return False
    except OSError:
        return False
    return True


def _complain(path: str, reason: str) -> None:
    """Log once a folder, not every two seconds."""
    if path not in _complained and len(_complained) < _MAX_COMPLAINTS:
        _complained.add(path)
        log.warning("folder %r is not taken as a trace: %s", path, reason)


def _unreadable(path: Path, error: OSError) -> TraceScan:
    return TraceScan(
        id=path.name,
        path=path,
        state=TraceState.FAILED,
        error=f"The folder can't be read: {error.strerror}.",
        metadata=None,
        trace_gpu_arch=TraceMetadata().trace_gpu_arch,
        kernel_count=0,
        bytes=0,
        has_real_timing=False,
        has_step_timeline=False,
        sample=False,
        demo=False,
        kernels=(),
        fingerprint="",
    )


def _look(folder: Folder, *, still: bool, bundled: bool) -> TraceScan:
    read = _metadata(folder, bundled=bundled)
    metadata = read if isinstance(read, TraceMetadata) else None
    sample = bundled and metadata is not None and metadata.sample
    place = next((place for place in (LIST_FOLDER + LIST, LIST) if place in folder.sizes), None)
    verdict = _judge(folder, read, place, still=still, sample=sample)
    listed = verdict.listed
    archs = [] if metadata or not (place and listed) else archs_of_kernels(folder, place.removesuffix(LIST), listed)
    arch = metadata.trace_gpu_arch if metadata else next(reversed(archs), TraceMetadata().trace_gpu_arch)
    kernels: tuple[KernelLaunch, ...] = ()
    notes: tuple[str, ...] = ()
    if verdict.state is TraceState.READY and place and listed:
        stats = _stats_files(folder, place)
        kernels = _kernels(folder, place, listed, stats)
        notes = tuple(_notes(listed, stats, archs, adopted=metadata is None))
        for note in notes:
            log.info("trace %s: %s", folder.path.name, note)
    return TraceScan(
        id=folder.path.name,
        path=folder.path,
        state=verdict.state,
        error=verdict.error,
        metadata=metadata,
        trace_gpu_arch=arch,
        kernel_count=_kernel_files(folder) if listed is None else len(listed.kernels),
        bytes=sum(folder.sizes.values()),
        has_real_timing="real_timing.json" in folder.sizes,
        has_step_timeline="corrected_timeline.json" in folder.sizes and "kernel_mapping.json" in folder.sizes,
        sample=sample,
        demo=bundled and metadata is not None and metadata.demo,
        kernels=kernels,
        fingerprint=folder.fingerprint,
        retry=verdict.retry,
        notes=notes,
    )


def _metadata(folder: Folder, *, bundled: bool) -> TraceMetadata | str | None:
    """The metadata, why it can't be read, or None when there is none."""
    if METADATA not in folder.sizes:
        return None
    try:
        # An installer may have made the bundled files links.
        data = (folder.read if bundled else folder.read_own)(METADATA, MAX_BYTES + 1)
    except OSError as error:
        return f"{METADATA} can't be read: {error.strerror}."
    return _LEADS_OUT if data is None else parse_metadata(data)


def _judge(
    folder: Folder, metadata: TraceMetadata | str | None, place: str | None, *, still: bool, sample: bool
) -> _Verdict:
    """The trace's state.

    Only the status `complete` says that all files are there. Where no status (or an unknown one) says so, a
    kernelslist.g is taken as the last thing written, and the files must have been still for two scans.
    """
    if isinstance(metadata, str):
        return _Verdict(TraceState.FAILED if metadata == _LEADS_OUT else TraceState.UPLOADING, metadata, retry=True)
    status = metadata.status if metadata else None
    if metadata and status == "failed":
        return _Verdict(TraceState.FAILED, metadata.error or f"{METADATA} says that tracing failed, and not why.")
    if status == "uploading":
        return _Verdict(TraceState.UPLOADING)
    if place is None and status == "complete":
        return _Verdict(TraceState.FAILED, _not_processed(folder))
    if place is None:
        # A profiler pauses between kernels, so silence alone is no failure; still, say what is missing.
        hint = _not_processed(folder) if still and _has_raw_list(folder) else None
        return _Verdict(TraceState.UPLOADING, hint)
    if status != "complete" and not still:
        return _Verdict(TraceState.UPLOADING)
    return _judge_list(folder, place, sample=sample)


def _judge_list(folder: Folder, place: str, *, sample: bool) -> _Verdict:
    if folder.sizes[place] > MAX_TEXT_BYTES:
        return _Verdict(TraceState.FAILED, f"{place} is larger than {MAX_TEXT_BYTES >> 20} MiB.")
    try:
        text = _text(folder, place)
    except OSError as error:
        return _Verdict(TraceState.FAILED, f"{place} can't be read: {error.strerror}.", retry=True)
    listed = parse_kernelslist(text)
    sizes = folder.beside(place)
    if sample:
        # A sample has results only, no kernel files.
        sizes = {kernel.file: 1 for kernel in listed.kernels}
    problem = list_problem(listed, sizes)
    return _Verdict(TraceState.FAILED if problem else TraceState.READY, problem, listed)


def _has_raw_list(folder: Folder) -> bool:
    return any(re.fullmatch(r"(traces/)?kernelslist(_ctx_0x[0-9a-fA-F]+)?", name) for name in folder.sizes)


def _not_processed(folder: Folder) -> str:
    raw = len({name for name in folder.sizes if (found := _KERNEL_FILE.fullmatch(name)) and not found[2]})
    what = f"kernelslist.g is missing beside {raw} raw kernel trace{'s' if raw != 1 else ''}"
    return (
        f"The trace is not post-processed: {what if raw else 'there is no kernelslist.g'}. Run Accel-Sim's "
        "post-traces-processing on this folder; the trace then becomes ready by itself."
    )


def _kernel_files(folder: Folder) -> int:
    """Kernels that have a file, counting one that lies there both raw and processed once."""
    return len({found[1] for name in folder.sizes if (found := _KERNEL_FILE.fullmatch(name))})


def _stats_files(folder: Folder, place: str) -> dict[str, str | None]:
    """Names of the statistics files beside the list, each with the context it is of, None when its name tells none."""
    found = {name: _STATS.fullmatch(name) for name in sorted(folder.beside(place))}
    return {name: match[1] for name, match in found.items() if match}


def _contexts(listed: KernelsList) -> set[str | None]:
    return {kernel.context for kernel in listed.kernels}


def _kernels(
    folder: Folder, place: str, listed: KernelsList, stats: Mapping[str, str | None]
) -> tuple[KernelLaunch, ...]:
    """The listed kernels that a statistics file beside the list describes, by id.

    Several contexts may have been traced while one is listed, and ids repeat among them: a kernel's row is looked for
    in its own context's file, then in one that tells no context. Names without a context are described by the only
    context there is, or by none.
    """
    ids = {kernel.kernel_id for kernel in listed.kernels if kernel.kernel_id is not None}
    rows: dict[str | None, dict[int, KernelLaunch]] = {}
    for name, context in stats.items():
        if context is None or None in _contexts(listed) or context in _contexts(listed):
            try:
                text = _text(folder, place.removesuffix(LIST) + name)
            except OSError as error:
                log.warning("trace %s: %s can't be read: %s", folder.path.name, name, error.strerror)
                continue
            for row in parse_stats(text, ids):
                rows.setdefault(context, {}).setdefault(row.kernel_id, row)
    unnamed = rows.get(None, {})
    if not unnamed and len(set(stats.values())) == 1:
        unnamed = next(iter(rows.values()), {})
    found: dict[tuple[str | None, int], KernelLaunch] = {}
    for kernel in listed.kernels:
        if kernel.kernel_id is not None:
            own = rows.get(kernel.context, {}) if kernel.context else unnamed
            described = own.get(kernel.kernel_id) or rows.get(None, {}).get(kernel.kernel_id)
            if described is not None:
                found.setdefault((kernel.context, kernel.kernel_id), described)
    return tuple(sorted(found.values(), key=lambda row: row.kernel_id))


def _notes(
    listed: KernelsList, stats: Mapping[str, str | None], archs: Sequence[str], *, adopted: bool
) -> Iterator[str]:
    contexts = _contexts(listed) - {None}
    others = sorted(context for context in stats.values() if context and contexts and context not in contexts)
    if others:
        yield f"Other contexts were traced that kernelslist.g does not list: {', '.join(others)}."
    if listed.ends_in_memcpy:
        yield "kernelslist.g ends in a copy, on which simulators of before 2024 abort; Cascade leaves it out."
    if len(archs) > 1:
        yield f"Kernels are compiled for {', '.join(archs)}; {archs[-1]} is taken for the GPU's."
    if adopted and not archs:
        yield f"No kernel file tells its -binary version; {TraceMetadata().trace_gpu_arch} is assumed."


def _text(folder: Folder, name: str) -> str:
    return folder.read(name, MAX_TEXT_BYTES).decode("utf-8", "replace")

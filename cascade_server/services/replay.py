"""Which recording a sim replays where there is no Accel-Sim, and what must be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cascade_server import samples
from cascade_server.contract.models import TraceSummary
from cascade_server.settings import Settings

REPLAY_NOTICE = "Replayed, not simulated now: these are recorded Accel-Sim results of this very trace on these configs."


@dataclass(frozen=True, slots=True)
class Replay:
    """A recording for one sim; a stand-in is of another trace or config."""

    path: Path
    name: str
    stand_in: bool


def choose(settings: Settings, trace: TraceSummary, gpu_config: str) -> Replay | None:
    """The recording for a trace and config; None when the real simulator runs."""
    if trace.sample:
        name = samples.TRUE_RECORDINGS[trace.id, gpu_config]
        return Replay(samples.recording_path(name), name, stand_in=False)
    if settings.uses_accelsim:
        return None
    if settings.replay_log is not None:
        path = settings.replay_log
        return Replay(path, path.name.removesuffix(".xz").removesuffix(".log"), stand_in=True)
    known = samples.TRUE_RECORDINGS.get((trace.id, gpu_config)) if trace.demo else None
    name = known or samples.STAND_IN
    return Replay(samples.recording_path(name), name, stand_in=known is None)


def notice(replays: Sequence[tuple[str, Replay | None]]) -> str | None:
    """The sentence to show beside a run's numbers, from each entry's config and recording."""
    stand_ins = {config: replay.name for config, replay in replays if replay is not None and replay.stand_in}
    if stand_ins:
        names = set(stand_ins.values())
        what = ", ".join(f"{config} replays {name}" for config, name in stand_ins.items())
        if len(names) == 1 and len(stand_ins) == len(replays):
            what = names.pop()
        return (
            "The numbers do NOT describe this trace: nothing is simulated, a recording of another trace or config "
            f"stands in ({what})."
        )
    return REPLAY_NOTICE if any(replay is not None for _, replay in replays) else None

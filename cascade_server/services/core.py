"""Everything the server is made of, wired up."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cascade_server.configs.discovery import load_configs
from cascade_server.contract.events import TraceChangedEvent, TraceGoneEvent
from cascade_server.contract.models import GpuConfig, TraceSummary
from cascade_server.db.connection import Database
from cascade_server.launchers.base import Launcher
from cascade_server.settings import Settings
from cascade_server.traces.registry import TraceRegistry

from .analysis import Analysis
from .bus import SERVER_TOPIC, Bus
from .dispatch import Dispatcher, SimTokens
from .ingest import Ingest
from .lifecycle import Lifecycle
from .outputs import Outputs
from .runs import Runs


@dataclass(frozen=True, slots=True)
class Tokens:
    """The main token, None when the check is off, and the sims'."""

    main: str | None
    sims: SimTokens


@dataclass(frozen=True, slots=True)
class Core:
    """The services that routes call."""

    settings: Settings
    db: Database
    configs: Mapping[str, GpuConfig]
    tokens: Tokens
    bus: Bus
    lifecycle: Lifecycle
    ingest: Ingest
    runs: Runs
    outputs: Outputs
    analysis: Analysis
    registry: TraceRegistry
    dispatcher: Dispatcher


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def random_id(prefix: str) -> str:
    """A new id: the prefix and 12 hex digits."""
    return prefix + secrets.token_hex(6)


def bus_publisher(bus: Bus) -> Callable[[TraceSummary | str], None]:
    """Tells the watchers of the server that a trace changed, or (by its id) that it is gone."""

    def publish(trace: TraceSummary | str) -> None:
        event = TraceGoneEvent(trace_id=trace) if isinstance(trace, str) else TraceChangedEvent(trace=trace)
        bus.publish(SERVER_TOPIC, event)

    return publish


def make_core(
    settings: Settings,
    db: Database,
    launcher: Launcher,
    tokens: Tokens,
    *,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
    new_id: Callable[[str], str],
) -> Core:
    """Wire the services together."""
    configs = {config.name: config for config in load_configs(settings.accelsim_dir)}
    bus = Bus()
    lifecycle = Lifecycle(db, bus, now=now, monotonic=monotonic, heartbeat_timeout_s=settings.heartbeat_timeout_s)
    ingest = Ingest(db, bus)
    dispatcher = Dispatcher(db, lifecycle, launcher, tokens.sims)
    lifecycle.on_finished += [ingest.forget, dispatcher.finished]
    runs = Runs(db, bus, settings, configs, now=now, new_id=new_id)
    return Core(
        settings=settings,
        db=db,
        configs=configs,
        tokens=tokens,
        bus=bus,
        lifecycle=lifecycle,
        ingest=ingest,
        runs=runs,
        outputs=Outputs(db, settings.data_dir / "files", max_bytes=settings.max_file_bytes, now=now),
        analysis=Analysis(db, runs),
        registry=TraceRegistry(db, settings, now=now, on_change=bus_publisher(bus)),
        dispatcher=dispatcher,
    )

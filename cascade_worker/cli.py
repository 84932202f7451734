"""The command `cascade worker`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(names: str, variable: str, text: str, **more: Any) -> Any:
    return typer.Option(*names.split(), envvar=f"CASCADE_{variable}", help=text, **more)


Url = Annotated[str | None, _option("--url", "URL", "The server's URL.")]
SimId = Annotated[str | None, _option("--sim-id", "SIM_ID", "The sim to work on.")]
Config = Annotated[str | None, _option("--gpu-config", "GPU_CONFIG", "The GPU config to simulate.")]
CoreClockMhz = Annotated[
    float | None,
    _option(
        "--core-clock-mhz",
        "CORE_CLOCK_MHZ",
        "The GPU config's core clock, which turns cycles into time.",
        show_default="from gpgpusim.config, which counts first",
        min=0.0,
    ),
]
Trace = Annotated[Path | None, _option("--trace", "TRACE", "The trace's folder.")]
AccelsimDir = Annotated[
    Path | None, _option("--accelsim-dir", "ACCELSIM_DIR", "Accel-Sim's checkout, the folder that holds gpu-simulator.")
]
ReplayLog = Annotated[
    Path | None, _option("--replay", "REPLAY_LOG", "Replay this recording (.log or .log.xz) instead of simulating.")
]
Speed = Annotated[
    float, _option("--speed", "REPLAY_SPEED", "Replay so many times faster than recorded; 0: at once.", min=0.0)
]
ExitCode = Annotated[
    int | None,
    _option(
        "--replay-exit-code",
        "REPLAY_EXIT_CODE",
        "The recording's exit code.",
        show_default="from the index.tsv beside it, else 0",
    ),
]
StandIn = Annotated[
    bool,
    _option("--stand-in/--no-stand-in", "REPLAY_STAND_IN", "Whether the recording is of another trace or GPU config."),
]
WorkDir = Annotated[
    Path | None,
    _option("--work-dir", "WORK_DIR", "This sim's own folder.", show_default="a temporary one, removed at the end"),
]
HeartbeatS = Annotated[float, _option("--heartbeat-s", "HEARTBEAT_S", "Seconds between signs of life.", min=0.05)]
PatienceS = Annotated[
    float,
    _option(
        "--patience-s",
        "WORKER_PATIENCE_S",
        "Seconds to go on trying, after the simulator's end, to deliver to a server that is away.",
        min=0.0,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command `worker` to `app`."""
    app.command("worker")(worker)


def worker(
    url: Url = None,
    sim_id: SimId = None,
    gpu_config: Config = None,
    core_clock_mhz: CoreClockMhz = None,
    trace: Trace = None,
    accelsim_dir: AccelsimDir = None,
    replay: ReplayLog = None,
    speed: Speed = 1.0,
    replay_exit_code: ExitCode = None,
    stand_in: StandIn = False,
    work_dir: WorkDir = None,
    heartbeat_s: HeartbeatS = 10.0,
    patience_s: PatienceS = 86_400.0,
) -> None:
    """Run one sim and report to the server; or, given only --replay, print a recording and its verdict.

    The server starts workers by itself. The token comes from CASCADE_TOKEN alone, since others can read command lines.

    Exit codes: 0 the sim succeeded and that was reported, 1 it failed and that was reported, 2 wrong usage, 3 it was
    cancelled, 4 the report could not be delivered, 70 a bug. SIGTERM and SIGINT stop the simulator and report the sim
    as failed.
    """
    from . import main

    if replay is not None and (url is None or sim_id is None):
        raise typer.Exit(main.print_replay(replay, speed, replay_exit_code))
    if url is None or sim_id is None:
        raise typer.BadParameter("--url and --sim-id are needed, or --replay alone.")
    if replay is None and (accelsim_dir is None or trace is None or gpu_config is None):
        raise typer.BadParameter("--accelsim-dir, --trace and --gpu-config are needed, or --replay.")
    settings = {
        "sim_id": sim_id,
        "gpu_config": gpu_config,
        "core_clock_mhz": core_clock_mhz,
        "trace": trace,
        "accelsim_dir": accelsim_dir,
        "replay_log": replay,
        "replay_speed": speed,
        "replay_exit_code": replay_exit_code,
        "stand_in": stand_in,
        "heartbeat_s": heartbeat_s,
        "patience_s": patience_s,
    }
    raise typer.Exit(main.run_job(main.Job(url, work_dir, settings)))

"""The command as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.recordings import RECORDINGS, recording_bytes


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "cascade_worker", *arguments], env=env, capture_output=True, timeout=30, check=False
    )


@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [
        ("ok-vec4-qv100", 0, b"succeeded\n"),
        (
            "fail-concurrent-one-stream-rtx3070",
            1,
            b"failed: The simulator dropped kernels 3, 5, 6 and 7 and exited with 0.\n",
        ),
    ],
)
def test_a_replay_by_hand(name: str, code: int, verdict: bytes) -> None:
    done = run("--replay", str(RECORDINGS / f"{name}.log.xz"), "--speed", "0")
    assert (done.returncode, done.stdout, done.stderr) == (code, recording_bytes(name), verdict)


def test_the_exit_code_can_be_given() -> None:
    done = run("--replay", str(RECORDINGS / "ok-vec4-qv100.log.xz"), "--speed", "0", "--replay-exit-code", "137")
    assert done.returncode == 1
    assert done.stderr.startswith(b"failed: The simulator was killed by signal 9 (SIGKILL)")


def test_a_recording_that_is_not_there(tmp_path: Path) -> None:
    done = run("--replay", str(tmp_path / "none.log"))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == f"There is no recording {tmp_path}/none.log.\n".encode()


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m cascade_worker --replay {RECORDINGS}/ok-k8-a100.log.xz --speed 0 | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=30, check=True)
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), b"--url and --sim-id"),
        (("--url", "http://x", "--sim-id", "sim-1"), b"--accelsim-dir"),
        (("--speed", "-1"), b"--speed"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: bytes) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_every_option_has_help_and_a_variable_and_the_token_is_no_option() -> None:
    shown = run("--help", COLUMNS="200").stdout.decode()
    for variable in (
        *("URL", "SIM_ID", "GPU_CONFIG", "TRACE", "ACCELSIM_DIR", "REPLAY_LOG", "REPLAY_SPEED"),
        *("REPLAY_EXIT_CODE", "REPLAY_STAND_IN", "CORE_CLOCK_MHZ", "WORK_DIR", "HEARTBEAT_S", "WORKER_PATIENCE_S"),
    ):
        assert f"CASCADE_{variable}]" in shown
    assert "--token" not in shown


def test_it_is_a_command_of_cascade() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from cascade_server.cli import main; main()", "worker", "--help"],
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert b"--replay" in done.stdout


def test_the_package_is_light_until_a_command_runs() -> None:
    check = (
        "import sys, cascade_worker, cascade_worker.cli; "
        "print([name for name in ('aiohttp', 'pydantic', 'psutil', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, timeout=30, check=True)
    assert done.stdout.strip() == b"[]"

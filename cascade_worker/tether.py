"""Becomes another program that the kernel kills when the worker dies: `tether.py <worker's pid> <program> <argument>…`.

A small script in between, and not a `preexec_fn`, since no Python code is safe between fork and exec in a process with
threads. It keeps its pid, and the setting survives exec; processes that the program starts itself do not get it, but
decompressors end when the pipe to their simulator breaks.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Does not return; exit codes of its own: 137 if the worker is gone already, 127 if the program can't start."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL.value, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)  # it died before the call
    # Python ignores these, and an ignored signal stays ignored in whatever it becomes.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]} could not be started: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

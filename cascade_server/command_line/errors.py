"""Exit codes, and the exception that ends a command with one."""

from __future__ import annotations

SUCCEEDED = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
RUN_FAILED = 4
INTERRUPTED = 130
PIPE_CLOSED = 141
"""As a shell reports a program that SIGPIPE ended."""


class Stop(Exception):
    """Ends the command with an exit code and one sentence."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

"""Errors that services raise and the middleware turns into JSON.

ServiceError             status, detail
├── NotFoundError        404
├── ConflictError        409
├── LogGapError          409 with next_seq
├── TooLargeError        413
├── InvalidError         422
└── UnauthorizedError    401
LaunchError              a launcher could not start a sim; its text becomes the sim's error
StartError               the server can't start; its text is for the person who started it
"""

from __future__ import annotations


class ServiceError(Exception):
    """An answer that is no success; `detail` is a sentence for people."""

    status = 500

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class UnauthorizedError(ServiceError):
    """The token is missing or wrong."""

    status = 401


class NotFoundError(ServiceError):
    """The trace, run, sim or file is not there."""

    status = 404


class ConflictError(ServiceError):
    """The thing is there, but not in a state for this."""

    status = 409


class LogGapError(ServiceError):
    """Log lines are missing before a chunk; `next_seq` is the line number wanted."""

    status = 409

    def __init__(self, next_seq: int, seq: int) -> None:
        super().__init__(f"Lines are missing: this chunk begins at line {seq}, but line {next_seq} is next.")
        self.next_seq = next_seq


class TooLargeError(ServiceError):
    """More bytes than a setting allows."""

    status = 413


class InvalidError(ServiceError):
    """The request is well-formed but makes no sense."""

    status = 422


class LaunchError(Exception):
    """A launcher could not start a sim."""


class StartError(Exception):
    """The server can't start."""

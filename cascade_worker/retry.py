"""When to ask the server again, and when not to."""

from __future__ import annotations

import random
from collections.abc import Callable

import aiohttp

from cascade_server.contract.client import ApiError, CascadeError, Conflict, NotFound, Unauthorized, Unreachable

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 15.0
_TRY_AGAIN = frozenset({408, 425, 429})


class SimOver(Exception):
    """The server says that the sim has ended or is not ours: nothing can be reported any more."""


class Undeliverable(Exception):
    """The server refuses what we send, or was away for too long; the message is a sentence."""


class Backoff:
    """Waits that grow from 0.2 s to 15 s, each drawn evenly from nothing to its limit, so that workers spread out."""

    def __init__(self, draw: Callable[[float, float], float] = random.uniform) -> None:
        self._draw = draw
        self._limit = FIRST_WAIT_S

    def next(self) -> float:
        """Seconds to wait before the next try."""
        wait = self._draw(0.0, self._limit)
        self._limit = min(self._limit * 2, LONGEST_WAIT_S)
        return wait

    def reset(self) -> None:
        """Start small again, after the server answered."""
        self._limit = FIRST_WAIT_S


def check_retryable(error: CascadeError, sim_id: str) -> None:
    """Return if the call that failed with `error` may be repeated, else raise SimOver or Undeliverable."""
    match error:
        case Unreachable():
            return
        case Unauthorized():
            raise SimOver(error.detail) from error
        case NotFound() if sim_id in error.detail:
            raise SimOver(error.detail) from error
        case NotFound():
            # Not the server's own words: a proxy in front of it that finds it gone says this too.
            return
        case Conflict() if error.next_seq is not None:
            return
        case ApiError() if error.status >= 500 or error.status in _TRY_AGAIN:
            return
        case _:
            raise Undeliverable(f"The server refused the report: {error}") from error


def may_have_arrived(error: CascadeError) -> bool:
    """Whether a call that failed may have been carried out all the same: its answer was lost, not the call."""
    return isinstance(error, Unreachable) and not isinstance(error.__cause__, aiohttp.ClientConnectorError)

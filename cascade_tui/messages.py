"""Messages that the sync workers post to the app.

They carry nothing: the store is the truth, and whoever hears one reads it. So a backlog collapses into the newest.
"""

from __future__ import annotations

from textual.message import Message


class _Collapsing(Message):
    """A message of which only the newest matters."""

    def can_replace(self, message: Message) -> bool:
        """Let a queued one of the same kind be dropped for this one."""
        return type(message) is type(self)


class StoreChanged(_Collapsing):
    """The store holds something new."""


class ConnectionChanged(_Collapsing):
    """The link to the server came, went or has a new time of its next try."""

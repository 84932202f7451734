"""Ways to start workers."""

from __future__ import annotations

from cascade_server.settings import Settings

from .base import Launcher


def make_launcher(settings: Settings) -> Launcher:
    """The launcher that the settings name."""
    if settings.launcher == "local":
        from .local import LocalLauncher

        return LocalLauncher(settings)
    from .none import NoLauncher

    return NoLauncher()

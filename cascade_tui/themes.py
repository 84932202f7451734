"""Cascade's own dark and light theme.

One accent, four state colours, greys. All text colours have a contrast of at least 4.5 to 1 on their background.
The colours of chart series are told apart by people with the common colour deficiencies, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from textual.color import Color, ColorParseError
from textual.theme import Theme

DARK = "cascade-dark"
LIGHT = "cascade-light"

_DARK = Theme(
    name=DARK,
    primary="#58a6ff",
    secondary="#7ee0d0",
    accent="#58a6ff",
    foreground="#d5dce5",
    background="#0d1117",
    surface="#0d1117",
    panel="#1a212b",
    success="#56d364",
    warning="#e3b341",
    error="#ff7b72",
    dark=True,
    variables={
        "text-muted": "#8b96a5",
        "rule": "#2d3743",
        "track": "#39434f",
        "faint": "#5d6875",
        "cursor": "#1c2f49",
        "cursor-blurred": "#171f2a",
        "notice-background": "#3a2d0a",
        "series-1": "#58a6ff",
        "series-2": "#f0a04b",
        "series-3": "#4fd1b0",
        "series-4": "#d2a8ff",
        "series-5": "#f778ba",
        "series-6": "#e8d44d",
        "block-cursor-text-style": "none",
        "scrollbar": "#2d3743",
        "scrollbar-background": "#0d1117",
        "scrollbar-hover": "#465363",
        "scrollbar-active": "#58a6ff",
        "scrollbar-background-hover": "#0d1117",
        "scrollbar-background-active": "#0d1117",
        "scrollbar-corner-color": "#0d1117",
    },
)

_LIGHT = Theme(
    name=LIGHT,
    primary="#0860ca",
    secondary="#0b7285",
    accent="#0860ca",
    foreground="#1f2733",
    background="#ffffff",
    surface="#ffffff",
    panel="#edf1f5",
    success="#12752c",
    warning="#8a5700",
    error="#c4201d",
    dark=False,
    variables={
        "text-muted": "#59636f",
        "rule": "#cfd7df",
        "track": "#c3ccd6",
        "faint": "#87919c",
        "cursor": "#d7e7fb",
        "cursor-blurred": "#eaeff5",
        "notice-background": "#fff0c2",
        "series-1": "#0860ca",
        "series-2": "#c25e00",
        "series-3": "#0f8a6d",
        "series-4": "#7d4fc4",
        "series-5": "#c2337e",
        "series-6": "#7a6a00",
        "block-cursor-text-style": "none",
        "scrollbar": "#cfd7df",
        "scrollbar-background": "#ffffff",
        "scrollbar-hover": "#a9b4c0",
        "scrollbar-active": "#0860ca",
        "scrollbar-background-hover": "#ffffff",
        "scrollbar-background-active": "#ffffff",
        "scrollbar-corner-color": "#ffffff",
    },
)

THEMES = (_DARK, _LIGHT)

SERIES = 6
"""How many `series-N` colours a theme has."""

VARIABLES = {
    key: value
    for key, value in (_DARK.variables or {}).items()
    if key in {"rule", "track", "faint", "cursor", "cursor-blurred", "notice-background"} or key.startswith("series-")
}
"""Defaults of our own variables, for themes that come with Textual."""


def color(variables: Mapping[str, str], name: str) -> str:
    """Give a theme variable as a colour for Rich; the terminal's own where the theme leaves it open (`auto`, ANSI)."""
    try:
        parsed = Color.parse(variables[name])
    except (KeyError, ColorParseError):
        return "default"
    return parsed.hex6 if parsed.ansi is None else "default"

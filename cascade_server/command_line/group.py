"""A command group that can be called with an id in place of a command."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class ShowGroup(TyperGroup):
    """Takes what is no command of the group for the arguments of its `show`: `trace ID` is `trace show ID`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `show` before arguments that don't begin with a command."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)

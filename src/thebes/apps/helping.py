"""Help pages: what a command does is said to the end of its sentence, over as many lines as that takes."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperGroup


class Commands(TyperGroup):
    """A group of commands whose list is wrapped where it would be cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, made.get_short_help_str(sys.maxsize)) for name, made in found if made and not made.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

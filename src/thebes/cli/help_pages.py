"""Help pages: what a command does is said to the end of its sentence, over as many lines as that takes, and every page
has an example."""

from __future__ import annotations

import re
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

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The example of the group's first command that has one, unless the group's own words hold one."""
        if "Example:" in (self.help or ""):
            return
        made = (self.get_command(ctx, name) for name in self.list_commands(ctx))
        told = (re.search(r"Example: .+?(?=\n\s*\n|$)", each.help or "", re.DOTALL) for each in made if each)
        if example := next(filter(None, told), None):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(" ".join(example[0].split()))

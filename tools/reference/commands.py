"""Write every command of `thebes` with its arguments and options as one page, out of what its help says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from thebes.cli import main
from tools.reference.cells import cell

_TOP = """# Commands

*For everybody in a terminal: every command of `thebes`, its arguments and its options. `thebes COMMAND --help` says
the same.*

"""


def written() -> str:
    """Return the page."""
    thebes = typer.main.get_command(main.wired())
    pieces = [_of_command(words, command) for words, command in commands(thebes, "thebes")]
    return _TOP + "\n\n".join(pieces) + "\n"


def commands(command: Any, words: str) -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command that does something, with the words that call it."""
    if isinstance(command, TyperGroup):
        for name, below in sorted(command.commands.items()):
            if not below.hidden:
                yield from commands(below, f"{words} {name}")
    else:
        yield words, command


def _of_command(words: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    pieces = [f"## {words}", _told(command.help or ""), f"```text\n{usage}\n```"]
    rows = [row for parameter in command.params if (row := _row(parameter, context))]
    if rows:
        pieces.append("| argument or option | is |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(pieces)


def _row(parameter: Any, context: Any) -> str | None:
    record = parameter.get_help_record(context)
    if record is None or parameter.name == "help":
        return None
    name, told = record
    return f"| {_code(name)} | {cell(told)} |"


def _code(name: str) -> str:
    return f"`{re.sub(r' +', ' ', name).strip()}`"


def _told(text: str) -> str:
    """A command's help as Markdown: its paragraphs, and its examples as something to paste."""
    paragraphs = [" ".join(p.split()) for p in inspect.cleandoc(text).replace("\b", "").split("\n\n")]
    return "\n\n".join(
        re.sub(r"^Example: (thebes .+)$", r"Example: `\1`", paragraph).replace("<", "&lt;") for paragraph in paragraphs
    )

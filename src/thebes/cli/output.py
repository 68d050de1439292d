"""The output of every command: words for people, JSON for machines."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.reading import NotJSON, read_json

#: the option every command shares; `--json` alone means standard output
JSON_HELP = "Print machine-readable JSON to FILE (default -, standard output)."

#: the option every role shares
LogForm = Annotated[
    str, typer.Option("--log", envvar="THEBES_LOG", help="What is said on standard error: text or json.")
]

WEAK_EPSILON, WEAK_DELTA = 20.0, 0.01  #: beyond these a price is worth a warning


def json_option() -> Any:
    return typer.Option(None, "--json", metavar="[FILE]", help=JSON_HELP, show_default=False)


def write_json(target: str, body: Any) -> None:
    """JSON to a file, or to standard output for `-`."""
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        typer.echo(text, nl=False)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Mistake("--json", f"cannot write {target!r}: {error.strerror}") from None


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Mistake("TASK", f"there is no file {str(path)!r}") from None
    except (OSError, UnicodeDecodeError):
        raise Mistake("TASK", f"{str(path)!r} cannot be read as text") from None
    try:
        body = read_json(text)
    except NotJSON as error:
        raise Mistake("TASK", f"{str(path)!r} {error}") from None
    if not isinstance(body, dict):
        raise Mistake("TASK", f"{str(path)!r} must hold a JSON object")
    return body


def doubt(epsilon: float | Decimal, delta: float | Decimal) -> None:
    """A warning on standard error where a price promises hardly anything."""
    if epsilon > WEAK_EPSILON:
        sure = "; somebody who guesses between two answers of a person may end up practically certain"
        typer.echo(f"thebes: warning: epsilon {figure(float(epsilon))} protects hardly at all{sure}", err=True)
    if delta > WEAK_DELTA:
        told = f"with a chance of {figure(float(delta))} the promise may not hold at all, for each person"
        typer.echo(f"thebes: warning: delta {figure(float(delta))} is large: {told}", err=True)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Tell what a simulation warns of, a line each on standard error, once it has ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if warning.category is UserWarning:
            typer.echo(f"thebes: warning: {warning.message}", err=True)

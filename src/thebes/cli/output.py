"""The output of every command: words for people, JSON for machines."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.database import private_files
from thebes.privacy.accounting.odds import large_delta, large_epsilon
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json

#: the option every command shares; `--json` alone means standard output
JSON_HELP = "Print machine-readable JSON to FILE (default -, standard output)."

#: the option every role shares
LogForm = Annotated[
    str, typer.Option("--log", envvar="THEBES_LOG", help="Form of the log on standard error: text or json.")
]

LINE_SECONDS = 5.0  #: between two lines about one step


def check_writable(argument: str, path: Path) -> None:
    """Refuse a file that could not be written, before anything is asked or paid; what is there stays as it is."""
    try:
        there = path.exists()
        if there and not path.is_file() and not path.is_dir():
            return  # a device or a pipe, whose reader would take this for its end
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise Mistake(argument, f"cannot write {str(path)!r}: {error.strerror}") from None


def json_target(target: str | None) -> str | None:
    """Return where JSON goes, if it can be written there."""
    if target not in (None, "-"):
        check_writable("--json", Path(target))
    return target


def json_option() -> Any:
    """The option; a FILE that cannot be written is refused before the command begins."""
    return typer.Option(None, "--json", metavar="[FILE]", help=JSON_HELP, show_default=False, callback=json_target)


#: the same, for functions that are also called without a command line
JsonTarget = Annotated[
    str | None,
    typer.Option("--json", metavar="[FILE]", help=JSON_HELP, show_default=False, callback=json_target),
]
DataSetName = Annotated[str, typer.Argument(metavar="NAME", help="The data set.")]
SiteFolder = Annotated[Path, typer.Option("--home", envvar="THEBES_HOME", help="The site's home.")]


def write_json(target: str, body: Any, *, secret: bool = False) -> None:
    """JSON to a file, or to standard output for `-`. What lets somebody in is secret: its file is for its owner alone,
    also where one was there that others may read, or have open."""
    text = json.dumps(body, indent=2, ensure_ascii=False) + "\n"
    if target == "-":
        typer.echo(text, nl=False)
        return
    path = Path(target)
    try:
        if secret and (path.is_file() or not path.exists()):
            private_files.write(path.resolve(), text)
        else:
            path.write_text(text, encoding="utf-8")
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
    for told in filter(None, (large_epsilon(epsilon), large_delta(delta))):
        typer.echo(f"thebes: warning: {told}", err=True)


@contextmanager
def told_warnings() -> Iterator[None]:
    """Tell what a simulation warns of, a line each on standard error, once it has ended."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        if warning.category is UserWarning:
            typer.echo(f"thebes: warning: {warning.message}", err=True)


def paced(*, clock: Callable[[], float] = time.monotonic) -> Callable[[str], None]:
    """Return what says on standard error what is being done, at most every few seconds, and for how long already."""
    began = last = clock()

    def told(doing: str) -> None:
        nonlocal last
        now = clock()
        if now - last >= LINE_SECONDS:
            last = now
            typer.echo(f"{doing} ({now - began:.0f} s)", err=True)

    return told

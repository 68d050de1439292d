"""The checks of `thebes doctor`: whether this installation, or a home, is able to keep its promises."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.homes.findings import HomeFinding, How, found
from thebes.cli.homes.probe import Probe
from thebes.cli.output import JsonTarget, write_json


def _findings() -> Iterator[HomeFinding]:
    yield found(sys.version_info >= (3, 11), f"Python {sys.version.split()[0]}", "needs 3.11 or newer")
    yield found(
        os.urandom(8) != os.urandom(8),
        "the operating system gives entropy",
        "the same bytes twice; no noise can be trusted",
    )
    yield found(sqlite3.sqlite_version_info >= (3, 35), f"SQLite {sqlite3.sqlite_version}", "needs 3.35 or newer")
    try:
        import numpy as np

        from thebes.privacy import randomness

        noise = randomness.system().laplace(np.zeros(64, dtype=np.int64), scale=100.0)
        yield found(bool(noise.any()), "noise is drawn", "it is nothing but zeros; reinstall thebes")
    except ImportError as error:
        yield HomeFinding(How.BROKEN, "noise is drawn", f"{error.name} is missing; reinstall thebes")


def _walls() -> Iterator[HomeFinding]:
    """Check what only some systems take from the processes that meet strangers or their work."""
    from thebes import machine
    from thebes.data.sandbox.standing import walls

    lacks = machine.missing()
    yield found(lacks is None, "this system can keep a home", lacks or "", How.ABSENT)
    for wall in walls():
        broken = wall.name == "process" and lacks is None
        yield found(wall.stands, wall.what, wall.without, How.BROKEN if broken else How.ABSENT)


def _extras() -> Iterator[HomeFinding]:
    for module, extra, use in (
        ("psycopg", "postgres", "ledgers and coordinators on PostgreSQL"),
        ("torch", "torch", "gradient tasks"),
    ):
        there = importlib.util.find_spec(module) is not None
        yield found(there, f"optional {module}: {use}", f"pip install 'thebes[{extra}]'", How.ABSENT)


_Home = Annotated[
    Path | None, typer.Option("--home", envvar="THEBES_HOME", help="Look at a home as well, of any role.")
]
_Coordinator = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        envvar="THEBES_COORDINATOR",
        help="Check whether a coordinator can be reached: URL, or HOST:PORT as sites dial; a person's home knows it.",
    ),
]
_Store = Annotated[
    str | None, typer.Option("--store", help="Check whether this database can be used: postgresql://...")
]


def doctor(
    home: _Home = None,
    coordinator: _Coordinator = None,
    store: _Store = None,
    probe: Annotated[
        Probe | None,
        typer.Option(
            help="Only ask a running coordinator (by its URL) or site (by its home): live, whether it answers; ready, "
            "whether it can do its work."
        ),
    ] = None,
    as_json: JsonTarget = None,
) -> None:
    """Check this installation, and a home with --home.

    It looks at keys, databases, ledger, permissions, disk, clock and whom the home speaks with. Nothing is changed, and
    no secret shown. Exit status 1: something is broken.

    Example: thebes doctor --home /var/lib/thebes-site --coordinator coordinator.example:8443
    """
    if probe is not None:
        from thebes.cli.homes.probe import probe as asked

        asked(probe, home, coordinator)
        typer.echo(f"{probe.value}: yes")
        return
    said = list[HomeFinding]()
    for finding in _all(home, coordinator, store):
        said.append(finding)
        if as_json is None:
            typer.echo(finding.line)
    sound = all(finding.how is not How.BROKEN for finding in said)
    if as_json is not None:
        write_json(as_json, {"sound": sound, "findings": [finding.as_json() for finding in said]})
    if not sound:
        whose = "installation" if home is None else "installation or home"
        typer.echo(f"thebes: this {whose} is not sound; see the lines marked BROKEN", err=True)
        raise typer.Exit(1)


def _all(home: Path | None, coordinator: str | None, store: str | None) -> Iterator[HomeFinding]:
    yield from _findings()
    yield from _walls()
    yield from _extras()
    if home is not None:
        from thebes.cli.homes.examination import Surroundings, examined

        yield from examined(home, Surroundings(coordinator, store, os.environ.get("THEBES_PASSPHRASE")))

"""`thebes doctor`: is this installation able to keep its promises?"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sys
from collections.abc import Iterator

import typer


def _findings() -> Iterator[tuple[bool, str]]:
    yield sys.version_info >= (3, 11), f"Python {sys.version.split()[0]} (needs 3.11 or newer)"
    yield os.urandom(8) != os.urandom(8), "the operating system gives entropy"
    yield sqlite3.sqlite_version_info >= (3, 35), f"SQLite {sqlite3.sqlite_version} (needs 3.35 or newer)"
    try:
        import numpy as np

        from thebes.privacy import randomness

        noise = randomness.system().laplace(np.zeros(64, dtype=np.int64), scale=100.0)
        yield bool(noise.any()), "opendp draws noise"
    except ImportError as error:
        yield False, f"opendp draws noise ({error.name} is missing; reinstall thebes)"


def _walls() -> Iterator[tuple[bool, str]]:
    """What only some systems take from the processes in which strangers' SQL and networks meet data."""
    from thebes.data.sandbox.process import Sandbox

    sandbox = Sandbox()
    try:
        sandbox.open({}, key=b"")
        granted = sandbox.confinement
    finally:
        sandbox.close()
    without = "featurizers run behind the other walls alone"
    yield "system-calls" in granted, f"system calls of strangers' work are filtered (absent: {without})"
    yield "network" in granted, f"strangers' work has no network (absent: {without}, gradient tasks are refused)"


def _extras() -> Iterator[tuple[bool, str]]:
    for module, extra, use in (
        ("psycopg", "postgres", "ledgers and coordinators on PostgreSQL"),
        ("torch", "torch", "gradient tasks"),
    ):
        yield importlib.util.find_spec(module) is not None, f"{module}: {use} (pip install 'thebes[{extra}]')"


def doctor() -> None:
    """Check this installation.

    Example: thebes doctor
    """
    sound = True
    for good, line in _findings():
        sound &= good
        typer.echo(f"{'ok   ' if good else 'BROKEN'} {line}")
    for good, line in _walls():
        typer.echo(f"{'ok   ' if good else 'absent'} {line}")
    for good, line in _extras():
        typer.echo(f"{'ok   ' if good else 'absent'} optional {line}")
    if not sound:
        typer.echo("thebes: this installation is not sound; see the lines marked BROKEN", err=True)
        raise typer.Exit(1)

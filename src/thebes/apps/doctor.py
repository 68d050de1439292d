"""`thebes doctor`: is this installation able to keep its promises?"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sys
from collections.abc import Iterator

import typer

#: whether it is so, what it is about, and what to do or to know where it is not
Finding = tuple[bool, str, str]


def _findings() -> Iterator[Finding]:
    yield sys.version_info >= (3, 11), f"Python {sys.version.split()[0]}", "needs 3.11 or newer"
    yield (
        os.urandom(8) != os.urandom(8),
        "the operating system gives entropy",
        "the same bytes twice; no noise can be trusted",
    )
    yield sqlite3.sqlite_version_info >= (3, 35), f"SQLite {sqlite3.sqlite_version}", "needs 3.35 or newer"
    try:
        import numpy as np

        from thebes.privacy import randomness

        noise = randomness.system().laplace(np.zeros(64, dtype=np.int64), scale=100.0)
        yield bool(noise.any()), "opendp draws noise", "it draws nothing but zeros; reinstall thebes"
    except ImportError as error:
        yield False, "opendp draws noise", f"{error.name} is missing; reinstall thebes"


def _walls() -> Iterator[Finding]:
    """What only some systems take from the processes that meet strangers or their work."""
    from thebes.confinement import landlock
    from thebes.data.sandbox.process import Sandbox

    sandbox = Sandbox()
    try:
        sandbox.open({}, key=b"")
        granted = sandbox.confinement
    finally:
        sandbox.close()
    without = "featurizers run behind the other walls alone"
    yield "system-calls" in granted, "system calls of strangers' work are filtered", without
    yield "network" in granted, "strangers' work has no network", f"{without}, gradient tasks are refused"
    apart = "a site's two processes are kept apart by what they are told alone"
    yield landlock.version() > 0, "the process of a site that talks cannot open the site's files", apart


def _extras() -> Iterator[Finding]:
    for module, extra, use in (
        ("psycopg", "postgres", "ledgers and coordinators on PostgreSQL"),
        ("torch", "torch", "gradient tasks"),
    ):
        yield importlib.util.find_spec(module) is not None, f"{module}: {use}", f"pip install 'thebes[{extra}]'"


def doctor() -> None:
    """Check this installation.

    Example: thebes doctor
    """
    sound = True
    for finding in _findings():
        sound &= finding[0]
        typer.echo(_line(finding, "BROKEN"))
    for finding in _walls():
        typer.echo(_line(finding, "absent"))
    for good, what, advice in _extras():
        typer.echo(_line((good, f"optional {what}", advice), "absent"))
    if not sound:
        typer.echo("thebes: this installation is not sound; see the lines marked BROKEN", err=True)
        raise typer.Exit(1)


def _line(finding: Finding, otherwise: str) -> str:
    good, what, advice = finding
    return f"{'ok':<6} {what}" if good else f"{otherwise} {what} ({advice})"

"""The options by which a requestor's command finds its coordinator, and the connection that they make."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.requestor.server import Server

_TOKEN = "give a requestor's token with --token or the variable THEBES_TOKEN"  # noqa: S105


def coordinator() -> Any:
    """The address of the coordinator, as an option or a variable."""
    return typer.Option(
        None,
        "--coordinator",
        metavar="URL",
        envvar="THEBES_COORDINATOR",
        help="The coordinator's address, such as https://coordinator.example.",
    )


def token() -> Any:
    """The requestor's token, as an option or a variable."""
    return typer.Option(
        None,
        "--token",
        metavar="T",
        envvar="THEBES_TOKEN",
        help="Your requestor's token. Other users of this machine can see options: the variable is safer.",
    )


def ca_file() -> Any:
    """The certificate authority's file, where there is one of its own."""
    return typer.Option(
        None, "--ca-file", envvar="THEBES_CA_FILE", help="PEM file, where the deployment has its own authority."
    )


def timeout() -> Any:
    """For how long an answer is waited for."""
    return typer.Option(None, "--timeout", min=0, metavar="SECONDS", help="Stop waiting after that long (status 1).")


@contextmanager
def server_at(coordinator: str | None, token: str | None, ca_file: Path | None) -> Iterator[Server]:
    """Connect to the coordinator that the options name; what it warns of is told on standard error."""
    if not coordinator:
        raise Mistake("--coordinator", "is needed, or the variable THEBES_COORDINATOR: the coordinator's address")
    from thebes.requestor.server import connect
    from thebes.wire.refusals import NotSignedIn

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"thebes: {message}", err=True)
        try:
            with connect(coordinator, token or None, ca_file=ca_file) as server:
                yield server
        except NotSignedIn as refused:
            raise NotSignedIn(f"{refused}; {_TOKEN}") from None
        except Mistake as refused:
            if refused.argument != "token":
                raise
            raise Mistake("--token", f"{refused.message}; {_TOKEN}") from None

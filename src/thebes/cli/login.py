"""`thebes login` and `thebes logout`: let this machine's programs ask in one's name."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thebes.cli import connection

if TYPE_CHECKING:
    from thebes.wire.client import CoordinatorClient

_Url = Annotated[str, typer.Argument(metavar="URL", envvar="THEBES_COORDINATOR", help="The coordinator's address.")]


def login(url: _Url, ca_file: Path | None = connection.ca_file()) -> None:
    """Sign in at a coordinator in your browser; then `thebes.connect(URL)` and all commands ask in your name.

    The sign-in is kept in the system's keyring, or in a file that only you can read. It ends after 12 hours without
    use, and after 30 days.

    Example: thebes login https://thebes.example
    """
    from thebes.requestor.sign_in import sign_in

    with _client(url, ca_file) as client:
        sign_in(client, f"thebes on {platform.node() or 'a machine'}", tell=_tell)
        typer.echo(f"Signed in at {client.url}. End it with: thebes logout {client.url}")


def logout(url: _Url, ca_file: Path | None = connection.ca_file()) -> None:
    """End the sign-in at a coordinator, there and here.

    Example: thebes logout https://thebes.example
    """
    from thebes.requestor.sign_in import sign_out

    with _client(url, ca_file) as client:
        ended = sign_out(client)
        typer.echo(f"Signed out at {client.url}." if ended else f"You are not signed in at {client.url}.")


@contextmanager
def _client(url: str, ca_file: Path | None) -> Iterator[CoordinatorClient]:
    from thebes.wire.client import CoordinatorClient

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"thebes: {message}", err=True)
        with CoordinatorClient(url, ca_file=ca_file) as client:
            yield client


def _tell(page: str, code: str) -> None:
    typer.echo(f"Open {page} in a browser, sign in there, and type this code: {code}")
    typer.echo("Waiting; the code counts for ten minutes ...", err=True)

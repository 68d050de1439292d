"""`thebes user`: who may put tasks up and operate a coordinator. Contributors need no account."""

from __future__ import annotations

import sys
import warnings
from getpass import GetPassWarning
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thebes.apps import output
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.coordinator.accounts import Accounts, Role

app = typer.Typer(
    help="Add users to a coordinator, list them, change or take away what they may do.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Home = Annotated[Path, typer.Option(envvar="THEBES_HOME", help="The coordinator's home.")]
_Store = Annotated[str | None, typer.Option(help="The coordinator's --store, where it has one.")]
_Role = Annotated[str, typer.Option(help="requestor, operator or auditor.")]


@app.command()
def add(
    name: str,
    home: _Home,
    role: _Role = "requestor",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password's line from stdin.")
    ] = False,
    store: _Store = None,
) -> None:
    """Add a user. Without --password-stdin the password is asked for.

    Example: thebes user add ana --role requestor --home /var/lib/thebes
    """
    checked = _role(role)
    password = _piped() if password_stdin else _asked()
    _accounts(home, store).add(name, password, checked)
    typer.echo(f"{name} is a user now: {checked}.")


@app.command("list")
def list_(home: _Home, store: _Store = None, json: str | None = output.json_option()) -> None:
    """Every user with role and state.

    Example: thebes user list --home /var/lib/thebes
    """
    users = _accounts(home, store).users()
    if json is not None:
        output.write_json(json, [{"name": u.name, "role": str(u.role), "disabled": u.disabled} for u in users])
        return
    for user in users:
        typer.echo(f"{user.name}  {user.role}{'  disabled' if user.disabled else ''}")
    if not users:
        typer.echo("There are no users yet; admin.token in the home is an operator's.")


@app.command()
def disable(name: str, home: _Home, store: _Store = None) -> None:
    """Let a user in no longer; tokens given before stop counting at once.

    Example: thebes user disable ana --home /var/lib/thebes
    """
    _accounts(home, store).disable(name)
    typer.echo(f"{name} may not log in any more.")


@app.command()
def grant(name: str, home: _Home, role: _Role, store: _Store = None) -> None:
    """Give a user this role instead of the one before; a disabled user may log in again.

    Example: thebes user grant ana --role operator --home /var/lib/thebes
    """
    checked = _role(role)
    _accounts(home, store).grant(name, checked)
    typer.echo(f"{name} is now: {checked}.")


def _piped() -> str:
    line = "" if sys.stdin is None or sys.stdin.closed else sys.stdin.readline()
    if not line:
        raise Mistake("--password-stdin", "found nothing on standard input: pipe the password's line into this command")
    return line.rstrip("\r\n")


def _asked() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # it would show the password
            return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    except (typer.Abort, EOFError, OSError, ValueError, AttributeError, GetPassWarning):
        sentence = "is needed where nobody can be asked: pipe the password's line into this command"
        raise Mistake("--password-stdin", sentence) from None


def _role(name: str) -> Role:
    from thebes.coordinator.accounts import Role

    if name not in set(Role):
        raise Mistake("--role", f"must be one of {', '.join(Role)}")
    return Role(name)


def _accounts(home: Path, store: str | None) -> Accounts:
    from thebes.coordinator.accounts import Accounts
    from thebes.coordinator.clock import SystemClock
    from thebes.coordinator.database import Database
    from thebes.coordinator.home import Home

    if not home.is_dir():
        raise Mistake("--home", f"there is no directory {str(home)!r}")
    place = Home(home)
    return Accounts(
        Database(store or place.store),
        admin_token=place.admin_token,
        session_key=place.session_key,
        clock=SystemClock(),
    )

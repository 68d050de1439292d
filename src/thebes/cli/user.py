"""`thebes user`: who may put tasks up and operate a coordinator. Contributors need no account."""

from __future__ import annotations

import sys
import warnings
from getpass import GetPassWarning
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thebes.cli import output
from thebes.cli.names import names
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.coordinator.auth.accounts import Accounts, Role

app = typer.Typer(
    help="Add users to a coordinator, list them, change or take away what they may do.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
_Home = Annotated[Path, typer.Option(envvar="THEBES_HOME", help="The coordinator's home.")]
_Store = Annotated[str | None, typer.Option(help="The coordinator's --store, where it has one.")]
_Role = Annotated[str, typer.Option(help="requestor, operator or auditor.")]


@app.command()
def add(
    name: _Name,
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
    checked, accounts = _role(role), _accounts(home, store)
    accounts.add(name, _piped() if password_stdin else _asked(), checked)
    typer.echo(f"{name} is a user now: {checked}.")


@app.command()
def password(
    name: _Name,
    home: _Home,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password's line from stdin.")
    ] = False,
    store: _Store = None,
) -> None:
    """Give a user another password. Without --password-stdin it is asked for. All their sessions end.

    Example: thebes user password ana --home /var/lib/thebes
    """
    accounts = _accounts(home, store)
    accounts.change_password(name, _piped() if password_stdin else _asked())
    typer.echo(f"{name} has another password.")


@app.command("list")
def list_(home: _Home, store: _Store = None, json: str | None = output.json_option()) -> None:
    """List every user, with role and state.

    Example: thebes user list --home /var/lib/thebes
    """
    accounts = _accounts(home, store)
    users, may = accounts.users(), {user.name: accounts.capabilities.of(user.name) for user in accounts.users()}
    if json is not None:
        told = [
            {
                "name": user.name,
                "role": str(user.role),
                "disabled": user.disabled,
                "capabilities": [{"site": each.site, "kind": each.kind} for each in may[user.name]],
            }
            for user in users
        ]
        output.write_json(json, told)
        return
    for user in users:
        asks = ", ".join(f"{each.site} for {each.kind}" for each in may[user.name])
        limits = f"  asks only {asks}" if asks else ""
        typer.echo(f"{user.name}  {user.role}{'  disabled' if user.disabled else ''}{limits}")
    if not users:
        typer.echo("There are no users yet; admin.token in the home is an operator's.")


@app.command()
def disable(name: _Name, home: _Home, store: _Store = None) -> None:
    """Shut a user out; tokens given before stop counting at once.

    Example: thebes user disable ana --home /var/lib/thebes
    """
    _accounts(home, store).disable(name)
    typer.echo(f"{name} may not log in any more.")


@app.command()
def grant(
    name: _Name,
    home: _Home,
    role: Annotated[str | None, typer.Option(help="requestor, operator or auditor, instead of the one before.")] = None,
    site: Annotated[
        list[str] | None, typer.Option(help="Sites that the user may ask, with commas between; * is every one.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="For which kinds of task, with commas between; * is every one.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The user may ask every site again; each site's own policy decides.")
    ] = False,
    store: _Store = None,
) -> None:
    """Give a user another role (a disabled one may log in again), or say which sites they may ask for which kinds.

    Users may ask every site until --site or --kind limits them.
    Example: thebes user grant ana --site north,south --kind query --home /var/lib/thebes
    """
    if everything and (site or kind):
        raise Mistake("--all", "takes every limit away: leave --site and --kind out")
    if not (role or site or kind or everything):
        raise Mistake("--role", "is missing: give it, --site, --kind or --all, to say what the user is granted")
    accounts = _accounts(home, store)
    if role is not None:
        checked = _role(role)
        accounts.grant(name, checked)
        typer.echo(f"{name} is now: {checked}.")
    if everything:
        accounts.capabilities.clear(name)
        typer.echo(f"{name} may ask every site; each site's own policy decides.")
    if site or kind:
        accounts.capabilities.grant(name, names("--site", site or ["*"]), names("--kind", kind or ["*"]))
        asks = ", ".join(f"{each.site} for {each.kind}" for each in accounts.capabilities.of(name))
        typer.echo(f"{name} may ask only: {asks}.")


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
        sentence = "is needed where no terminal can ask for it: pipe the password's line into this command"
        raise Mistake("--password-stdin", sentence) from None


def _role(name: str) -> Role:
    from thebes.coordinator.auth.accounts import Role

    if name not in set(Role):
        raise Mistake("--role", f"must be one of {', '.join(Role)}")
    return Role(name)


def _accounts(home: Path, store: str | None) -> Accounts:
    from thebes.cli.homes.roles import store_of
    from thebes.coordinator.auth.accounts import Accounts
    from thebes.coordinator.clock import SystemClock
    from thebes.coordinator.home import CoordinatorHome
    from thebes.coordinator.storage.database_owner import database_of

    store, place = store_of(home, store), CoordinatorHome(home)
    return Accounts(
        database_of(place, store),
        admin_token=lambda: place.admin_token,
        session_key=lambda: place.session_key,
        clock=SystemClock(),
    )

"""`thebes rotate`: another key or token in the place of the one that there is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thebes.privacy.faults import Mistake


class Rotated(StrEnum):
    """The secrets that can be replaced, by the name of their file in the home."""

    LOG_KEY = "log.key"
    SESSION_KEY = "session.key"
    ADMIN_TOKEN = "admin.token"  # noqa: S105
    TOKEN = "token"  # noqa: S105
    FIGURES = "figures.token"
    AUTHORITY = "ca"


def rotate(
    what: Annotated[
        Rotated, typer.Argument(metavar="FILE", help="log.key, session.key, admin.token, token, figures.token or ca.")
    ],
    home: Annotated[Path, typer.Option("--home", envvar="THEBES_HOME", help="The home with that file.")],
    store: Annotated[
        str | None,
        typer.Option(help="For log.key: postgresql://..., unless the coordinator's database is in the home."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="For ca: make the key in a PKCS#11 token, as thebes ca init --key.")
    ] = None,
) -> None:
    """Replace a key or a token of a home, while its processes go on. The old one stops counting at once. log.key first
    signs its successor, so that people's machines follow by themselves. An old ca, the authority for sites, counts
    beside the new one until `thebes ca end-old`.

    Example: thebes rotate log.key --home /var/lib/thebes
    """
    from thebes.cli.homes.roles import role_of
    from thebes.wire.homes import HomeRole

    role = role_of(home)
    here = {
        HomeRole.COORDINATOR: set(Rotated) - {Rotated.TOKEN},
        HomeRole.SITE: {Rotated.TOKEN, Rotated.FIGURES},
        HomeRole.PERSON: {Rotated.TOKEN},
    }
    if what not in here.get(role, ()):
        raise Mistake("FILE", f"the home of a {role} has no {what}")
    if store is not None and what is not Rotated.LOG_KEY:
        raise Mistake("--store", "goes with log.key only")
    if key is not None and what is not Rotated.AUTHORITY:
        raise Mistake("--key", "goes with ca only")
    if role is not HomeRole.COORDINATOR:
        from thebes.wire.access import make_token

        make_token(home, anew=True, file=what)
        out = "" if what is Rotated.FIGURES else ": programs show it, and browsers need another address (--open)"
        within = ", within a second where the site runs" if role is HomeRole.SITE else ""
        typer.echo(f"{home / what} is new, and counts at once{within}{out}.")
    elif what is Rotated.LOG_KEY:
        typer.echo(_list_key(home, store))
    elif what is Rotated.AUTHORITY:
        typer.echo(_authority(home, key))
    else:
        from thebes.coordinator.home import CoordinatorHome

        CoordinatorHome(home).replace(what)
        told = "everybody who was logged in logs in again" if what is Rotated.SESSION_KEY else "give it to its holders"
        typer.echo(f"{home / what} is new, and counts at once: {told}.")


def _list_key(home: Path, store: str | None) -> str:
    from contextlib import closing

    from thebes.cli.homes.roles import check_store
    from thebes.coordinator.auth.log_key import next_list_key
    from thebes.coordinator.home import CoordinatorHome
    from thebes.coordinator.storage.database_owner import database_of
    from thebes.wire.task_log import fingerprint

    check_store(home, store)
    place = CoordinatorHome(home)
    with closing(database_of(place, store)) as database:
        made = next_list_key(place, database)
    return (
        f"The task list is signed with a new key, which the one before it signed as entry {made.length - 1}.\n"
        f"before  {fingerprint(made.key)}\n"
        f"now     {fingerprint(made.next)}\n"
        "Tell people the new fingerprint over the way by which they got the first one, and copy the home again."
    )


def _authority(home: Path, key: str | None) -> str:
    from thebes.coordinator.auth.authority import CertificateAuthority
    from thebes.coordinator.clock import SystemClock

    authority = CertificateAuthority(home, SystemClock())
    made = authority.rotate(key)
    return (
        f"{'Another authority for sites has begun' if made else 'Another authority for sites had begun already'}: "
        f"SHA-256 {authority.fingerprint}\n"
        "Both count. Bring every site a new link/ (thebes ca issue NAME); thebes ca list says which have not come with "
        "theirs yet. Then: thebes ca end-old. Copy the home again after each."
    )

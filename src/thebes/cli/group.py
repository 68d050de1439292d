"""`thebes group`: make a group, say who may enrol, freeze it; and at a person's home, join one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.one_time_codes import code_of
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.coordinator.people.groups import ContributorGroups

app = typer.Typer(
    help="Make groups whose members answer with anonymous tokens, and join them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Names(StrEnum):
    """The choice whether the names of a group's members become public when it is published."""

    PUBLIC = "public"
    PRIVATE = "private"


_Group = Annotated[str, typer.Argument(metavar="NAME", help="The group.")]
_Home = Annotated[Path, typer.Option(envvar="THEBES_HOME", help="The coordinator's home.")]
_Store = Annotated[str | None, typer.Option(help="The coordinator's --store, where it has one.")]
_Epoch = Annotated[str | None, typer.Option(help="Which epoch of the group; the newest if not given.")]
_Members = Annotated[Path | None, typer.Option(help="A text file with one identity in each line.")]


@app.command()
def create(
    name: _Group,
    home: _Home,
    minimum: Annotated[int, typer.Option(help="The fewest members; with fewer, none of them answers anything.")],
    epoch: Annotated[str | None, typer.Option(help="The new epoch's name; today's date if not given.")] = None,
    names: Annotated[
        Names,
        typer.Option(help="Whether everybody sees who is in it, once it is published. It cannot be changed later."),
    ] = Names.PRIVATE,
    members: _Members = None,
    store: _Store = None,
    json: str | None = output.json_option(),
) -> None:
    """Make a group, or the next epoch of one; with --members also a one-time code for each of them.

    Example: thebes group create city --minimum 20 --members people.txt --home /var/lib/thebes
    """
    identities = [] if members is None else _lines(members)
    groups = _groups(home, store)
    made = groups.create(name, minimum=minimum, epoch=epoch, names=names.value)
    codes = groups.admit(name, identities, epoch=made.epoch) if identities else {}
    if json is not None:
        told = {"name": name, "epoch": made.epoch, "digest": _pin(made), "names": names.value, "codes": codes}
        output.write_json(json, told, secret=True)
        return
    typer.echo(f"Group {name}, epoch {made.epoch}. Its digest, to be published where its members find it:")
    typer.echo(_pin(made))
    typer.echo(_names(names.value))
    _print(codes)


@app.command()
def enrol(
    name: _Group,
    home: _Home,
    identities: Annotated[list[str] | None, typer.Argument(help="Who may enrol, as you know them.")] = None,
    members: _Members = None,
    epoch: _Epoch = None,
    store: _Store = None,
    json: str | None = output.json_option(),
) -> None:
    """Admit people: a one-time code for each, to be handed to that person only. Make sure that each is one human.

    For somebody who has a code but has not joined yet this makes a new one; the old code no longer works.

    Example: thebes group enrol city ana bob --home /var/lib/thebes
    """
    wanted = [*(identities or []), *([] if members is None else _lines(members))]
    groups = _groups(home, store)
    before = {each.identity for each in groups.admitted(name, epoch)}
    codes = groups.admit(name, wanted, epoch=epoch)
    for identity in codes:
        if identity in before:
            typer.echo(f"thebes: {identity}: the code given before no longer works", err=True)
    if json is not None:
        output.write_json(json, codes, secret=True)
        return
    typer.echo(_names(groups.record(name, epoch).parameters.names))
    _print(codes)


@app.command()
def publish(
    name: _Group,
    home: _Home,
    epoch: _Epoch = None,
    store: _Store = None,
) -> None:
    """Freeze a group's epoch: its size and list become public, nobody can enrol in it any more, and tasks may name it.

    Example: thebes group publish city --home /var/lib/thebes
    """
    record = _groups(home, store).publish(name, epoch=epoch)
    typer.echo(f"Group {name}, epoch {record.epoch}, is published with {record.size} members. Its record's digest:")
    typer.echo(record.digest)


@app.command()
def show(
    name: _Group,
    home: Annotated[
        Path | None,
        typer.Option(envvar="THEBES_HOME", help="The coordinator's home; or a person's, whose proxy is used."),
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(envvar="THEBES_COORDINATOR", help="A coordinator's address, instead of its home.")
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(help="The SOCKS5 proxy to ask through: tor, or socks5h://HOST:PORT; `none` asks directly."),
    ] = None,
    epoch: _Epoch = None,
    store: _Store = None,
    json: str | None = output.json_option(),
) -> None:
    """Show what a group publishes; at its coordinator's home also who has enrolled.

    Example: thebes group show city --coordinator https://thebes.example.org
    """
    if home is None and coordinator is None:
        raise Mistake("--home", "is missing: the coordinator's home, or --coordinator and its address")
    if home is not None and not _is_persons(home):
        told = _shown(name, home, epoch, store)
    else:
        told = _asked(name, *_way(home, coordinator, proxy), epoch)
    if json is not None:
        output.write_json(json, told)
        return
    state = "published; nobody enrols any more" if told["frozen"] else "people enrol"
    typer.echo(f"Group {name}, epoch {told['epoch']}: {state}")
    typer.echo(f"members   {told['size']}, at least {told['minimum']} before anything is answered")
    typer.echo(f"names     {told['parameters']['names']}")
    typer.echo(f"digest    {told['digest']}")
    if told["record"] is not None:
        typer.echo(f"record    {told['record']}")
    for member in told.get("admitted", []):
        typer.echo(f"          {member['identity']}  {'enrolled' if member['enrolled'] else 'has a code'}")


@app.command()
def join(
    name: _Group,
    home: Annotated[Path, typer.Option(envvar="THEBES_HOME", help="The person's home.")],
    code: Annotated[
        str | None,
        typer.Option(
            help="The one-time code that the group's authority gave you; without this option you are asked for it. "
            "Given here, everybody on this machine can read it while the command runs, and your shell may keep it."
        ),
    ] = None,
    code_stdin: Annotated[bool, typer.Option("--code-stdin", help="Read the code from standard input.")] = False,
    pin: Annotated[str | None, typer.Option(help="The group's digest, as you found it elsewhere.")] = None,
    epoch: _Epoch = None,
    names: Annotated[
        Names, typer.Option(help="public: your name may be published, where the group publishes its members' names.")
    ] = Names.PRIVATE,
    coordinator: Annotated[
        str | None,
        typer.Option(envvar="THEBES_COORDINATOR", help="The address of the group's coordinator; it is remembered."),
    ] = None,
) -> None:
    """Join a group with a person's home: once, with the code that you were given. Again changes nothing.

    Example: thebes group join city --pin 5f3c... --home me
    """
    from thebes.person.access import open_person

    code = code_of(code, from_stdin=code_stdin, prompt="The one-time code: ")
    with open_person(home, coordinator=coordinator) as me:
        pinned = None if pin is None else "".join(pin.split()).lower()
        joined = me.enrol(name, code, pinned, epoch=epoch, names=names.value)
    typer.echo(f"You are a member of {name}, epoch {joined['epoch']}. Its digest is")
    typer.echo(joined["digest"])
    typer.echo(joined["anonymity"])


def _shown(name: str, home: Path, epoch: str | None, store: str | None) -> dict[str, Any]:
    groups = _groups(home, store)
    record = groups.record(name, epoch)
    people = groups.admitted(name, record.epoch)
    admitted = [{"identity": each.identity, "enrolled": each.enrolled} for each in people]
    return {**record.as_json(), "epochs": groups.epochs(name), "admitted": admitted}


def _is_persons(home: Path) -> bool:
    from thebes.person.home import TASK_STORE
    from thebes.person.settings import FILE

    return any((home / file).exists() for file in (FILE, TASK_STORE))


def _way(home: Path | None, coordinator: str | None, proxy: str | None) -> tuple[str, str | None]:
    """Return whom to ask and through what: what is given, else what a person's home remembers."""
    from thebes.person.settings import PersonSettings

    remembered = PersonSettings() if home is None else PersonSettings.read(home)
    asked = remembered.coordinator if coordinator is None else coordinator
    if asked is None:
        raise Mistake("--coordinator", "is missing: this home knows no coordinator yet; give its address")
    return asked, (remembered if proxy is None else remembered.changed({"proxy": proxy})).proxy


def _asked(name: str, coordinator: str, proxy: str | None, epoch: str | None) -> dict[str, Any]:
    from thebes.wire.client import CoordinatorClient
    from thebes.wire.groups import GroupRecord

    with CoordinatorClient(coordinator, proxy=proxy) as client:
        told = client.group(name, epoch=epoch)
    return {**GroupRecord.from_json(told).as_json(), "epochs": told.get("epochs", [])}


def _pin(record: Any) -> str:
    return str(record.parameters.digest)


def _names(names: str) -> str:
    if names == Names.PUBLIC:
        return "The names of its members become public when it is published: tell them before they join."
    return "The names of its members stay private: only you know them."


def _print(codes: dict[str, str]) -> None:
    if codes:
        typer.echo("One-time codes, each for one person only:")
    for identity, code in codes.items():
        typer.echo(f"{code}  {identity}")


def _lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise Mistake("--members", "is not text in UTF-8") from None
    except OSError as error:
        raise Mistake("--members", f"cannot be read: {error.strerror}") from None
    return [line.strip() for line in lines if line.strip()]


def _groups(home: Path, store: str | None) -> ContributorGroups:
    from thebes.cli.homes.roles import store_of
    from thebes.coordinator.clock import SystemClock
    from thebes.coordinator.home import CoordinatorHome
    from thebes.coordinator.people.groups import ContributorGroups
    from thebes.coordinator.storage.database_owner import database_of

    store, place = store_of(home, store), CoordinatorHome(home)
    return ContributorGroups(database_of(place, store), place, SystemClock())

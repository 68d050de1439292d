"""`thebes person`: a person's own machine as a process."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.help_pages import Commands
from thebes.cli.output import LogForm
from thebes.privacy.faults import Mistake, Refusal

app = typer.Typer(
    help="Keep a person's data, show what is asked, and answer what the person agrees to.\n\n"
    "Example: thebes person --home ~/thebes --coordinator https://coordinator.example",
    cls=Commands,
    invoke_without_command=True,
    rich_markup_mode=None,
)

_HomeOption = typer.Option("--home", envvar="THEBES_HOME", help="The folder with everything of this person.")


class Turned(StrEnum):
    """The word by which something is turned on or off, or only told."""

    ON = "on"
    OFF = "off"
    SHOW = "show"


_Turn = Annotated[Turned, typer.Argument(help="on, off, or show (say which it is).", metavar="on|off|show")]


@app.callback()
def person(
    ctx: typer.Context,
    home: Annotated[Path | None, _HomeOption] = None,
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", envvar="THEBES_COORDINATOR", help="Whose tasks to look at; remembered."),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            "--proxy",
            help="A SOCKS5 proxy for everything: tor, or socks5h://HOST:PORT; remembered. `none` ends it.",
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    example: Annotated[bool, typer.Option("--example", help="Fill the store with a made-up person.")] = False,
    no_delay: Annotated[bool, typer.Option("--no-delay", help="Send at once, for tests.")] = False,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Replace DIR/token; the old one stops working.")
    ] = False,
    pin: Annotated[
        str | None,
        typer.Option(
            "--pin", help="The fingerprint of the coordinator's key, as you found it elsewhere; no other is believed."
        ),
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="Print a new one-time address of the one that runs, for a browser.")
    ] = False,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Destroy everything here, keys first; asks for the words to be typed.")
    ] = False,
    log: LogForm = "text",
) -> None:
    """Keep a person's data, show what is asked, and answer what the person agrees to.

    Example: thebes person --home ~/thebes --coordinator https://coordinator.example

    A passphrase for the home's key, where it is not kept otherwise, is read from THEBES_PASSPHRASE.
    """
    if ctx.invoked_subcommand is not None:
        return
    if home is None:
        raise Mistake("--home", "is missing: the folder where everything of this person lies, such as ~/thebes")
    from contextlib import closing, nullcontext

    from thebes.person.daemon import run
    from thebes.person.folder import Hold, HomeInUse, prepared
    from thebes.person.settings import PersonSettings
    from thebes.simulation.example import fill
    from thebes.web.person import pages
    from thebes.wire import log_output
    from thebes.wire.access import make_token
    from thebes.wire.address import base_url

    if destroy:
        _destroy(home)
        return
    if open_:
        typer.echo(_address(home))
        return
    if coordinator is not None:
        base_url(coordinator)  # a mistake is told before anything is made on the disk
    try:
        # Whoever goes on to serve the home must be able to; by itself either is meant for one that runs.
        with nullcontext() if coordinator is None else closing(Hold(prepared(home))):
            if new_token:
                make_token(prepared(home), anew=True)
                if coordinator is None:
                    typer.echo(f"{home / 'token'} is new; the old token no longer works")
                    return
            if pin is not None:
                _pin(prepared(home), pin)
                if coordinator is None:
                    believed = "the key with this fingerprint is believed from now on, and the one that it gives way to"
                    typer.echo(f"Only {believed}.")
                    return
        if coordinator is None and PersonSettings.read(prepared(home)).coordinator is None:
            raise Mistake(
                "--coordinator", "is needed the first time: the address of the coordinator whose tasks are shown"
            )
        for never in PersonSettings.read(prepared(home)).unreached():
            typer.echo(f"thebes: warning: {never}", err=True)
        log_output.choose(log)
        run(
            home,
            coordinator=coordinator,
            proxy=proxy,
            port=port,
            delay=not no_delay,
            fill=fill if example else None,
            pages=pages.put_on,
            passphrase=os.environ.get("THEBES_PASSPHRASE"),
        )
    except HomeInUse as used:
        raise HomeInUse(f"{used}; for a new address of its pages: thebes person --home {home} --open") from None


@app.command()
def autostart(turn: _Turn, home: Annotated[Path, _HomeOption]) -> None:
    """Start a person's machine with each session of this user (systemd, launchd), or no longer do so.

    Example: thebes person autostart on --home ~/thebes
    """
    from thebes.person import autostart as starting

    folder = home.expanduser().resolve()
    there = starting.autostart(folder)
    if turn is Turned.ON or not there.left:  # else the home may be gone, and what starts it is not
        _of_a_person(home)
    if turn is Turned.ON:
        starting.startable(folder)
        there.turn_on()
        heard = there.heard()
    elif turn is Turned.OFF:
        there.turn_off()
        there.heard()
    else:
        heard = there.answered()
    if not there.on:
        typer.echo(f"Off: {folder} starts only by hand. What runs now goes on until it is stopped.")
        return
    if not heard:
        typer.echo(f"On, but not here: {starting.UNHEARD}. {there.path} counts from the first session with one.")
        typer.echo(f"Until then start it by hand: thebes person --home {home}")
        return
    typer.echo(f"On: {folder} starts with your next session, by {there.path}.")
    typer.echo(f"To start it now: {there.now}. For an address of its pages: thebes person --home {home} --open")


@app.command()
def notices(turn: _Turn, home: Annotated[Path, _HomeOption]) -> None:
    """Say once a day how many new questions there are, in the title of the pages and on the desktop. It never says who
    asks, or what. Off at first.

    Example: thebes person notices on --home ~/thebes
    """
    from thebes.person.access import open_person
    from thebes.person.notices import desktop
    from thebes.person.settings import PersonSettings

    folder = _of_a_person(home)
    if turn is not Turned.SHOW:
        with open_person(folder, passphrase=os.environ.get("THEBES_PASSPHRASE")) as me:
            me.set_settings({"notices": turn is Turned.ON})
    if not PersonSettings.read(folder).notices:
        typer.echo("Off: nothing is said of new questions; the pages show them.")
        return
    by = "by the desktop and in the title of the pages" if desktop() else "in the title of the pages"
    lacks = "" if desktop() else " (this machine has no notify-send)"
    typer.echo(f"On: once a day the number of new questions is said {by}{lacks}, never who asks or what.")


def _of_a_person(home: Path) -> Path:
    from thebes.cli.homes.roles import role_of
    from thebes.wire.homes import HomeRole

    if role_of(home) is not HomeRole.PERSON:
        raise Mistake("--home", f"{str(home)!r} is not a folder of `thebes person`")
    return home.expanduser().resolve()


def _destroy(home: Path) -> None:
    """Everything of a home, whether a process runs on it or not; contributions that have left stay where they are."""
    import sys

    from thebes.person.access import open_person

    _of_a_person(home)
    typer.echo("What lies here cannot be brought back. To go on type: destroy everything", err=True)
    if sys.stdin.readline().strip() != "destroy everything":
        raise Mistake("--destroy", "was not confirmed; nothing was changed")
    open_person(home, passphrase=os.environ.get("THEBES_PASSPHRASE")).destroy()
    typer.echo("Everything is destroyed. Contributions that were sent before stay where they are.")


def _pin(home: Path, told: str) -> None:
    from thebes.person.tasks.task_feed import pin
    from thebes.wire.list_pin import is_fingerprint

    fingerprint = "".join(told.split()).lower()
    if not is_fingerprint(fingerprint):
        raise Mistake("--pin", "must be 64 hexadecimal digits, as the coordinator's page /log shows them")
    pin(home, fingerprint)


def _address(home: Path) -> str:
    """A one-time address of the process that holds this home; without one, a sentence that says how to start it."""
    from thebes.person.client import PersonClient
    from thebes.wire.local_server import START_SECONDS

    me = PersonClient.running(home, patience=START_SECONDS) if home.is_dir() else None
    if me is None:
        raise Refusal(f"no `thebes person` runs in {str(home)!r}; start one, and it prints an address")
    with me:
        return me.address()

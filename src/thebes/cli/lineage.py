"""`thebes lineage`: the ways that what left a person's home went."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.output import JsonTarget, write_json
from thebes.privacy.faults import Mistake


def lineage(
    home: Annotated[Path, typer.Option("--home", envvar="THEBES_HOME", help="A person's home.")],
    look: Annotated[
        str | None, typer.Option("--look", metavar="TASK", help="Look for the receipts of this task anew.")
    ] = None,
    as_json: JsonTarget = None,
) -> None:
    """Show what became of everything that left a person's home.

    It names tables, task and answer, says whether the receipts are in the answer, and names models begun from it. Only
    with --look is the coordinator asked: for the whole list, as anybody may.

    Exit status 1: something is missing, was kept after it was taken back, or is not what others see.
    Example: thebes lineage --home ~/thebes
    """
    from thebes.cli.homes.roles import role_of
    from thebes.person.client import PersonClient
    from thebes.person.home import Person
    from thebes.web.person.lineage import found
    from thebes.web.person.words import called
    from thebes.wire.homes import HomeRole

    if role_of(home) is not HomeRole.PERSON:
        raise Mistake("--home", f"{str(home)!r} is not a folder of thebes person")
    running = PersonClient.running(home)
    with running or Person(home, passphrase=os.environ.get("THEBES_PASSPHRASE")) as me:
        went = me.lineage() if look is None else me.look_for_receipts(look)
    if as_json is not None:
        write_json(as_json, went)
    else:
        if not went:
            typer.echo("Nothing has left this home.")
        for each in went:
            word, _, sentence = found(each["receipts"])
            whose = f"{called(each['name'], each['type'])} ({each['task_id']}), asked by {each['requestor']}"
            typer.echo(f"{whose}: {word}")
            typer.echo(f"  from {', '.join(each['tables']) or 'no table'}. {sentence}")
            if each["models"]:
                typer.echo(f"  models begun from it: {', '.join(each['models'])}")
    if any(each["receipts"]["warning"] for each in went):
        raise typer.Exit(1)

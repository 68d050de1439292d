"""`thebes forget`: tasks that are over, as if they had never been but for the signed list."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from thebes.privacy.faults import Mistake, Refusal


def forget(
    home: Annotated[Path, typer.Option("--home", envvar="THEBES_HOME", help="The coordinator's home.")],
    tasks: Annotated[list[str] | None, typer.Argument(metavar="[TASK]...", help="Tasks that are over.")] = None,
    before: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="Every task that is over and was put up before this day (2026-01-31, UTC)."),
    ] = None,
    untold: Annotated[
        bool, typer.Option("--untold", help="Also tasks of which an institution has not yet heard that they are over.")
    ] = False,
    store: Annotated[
        str | None, typer.Option(help="postgresql://..., unless the coordinator's database is in the home.")
    ] = None,
) -> None:
    """Delete what a coordinator keeps of tasks that are over.

    What goes: contributors' pseudonyms and receipts, the document, the answer, and who asked. Id and digest stay in the
    signed list. The coordinator may run.

    Example: thebes forget --before 2026-01-31 --home /var/lib/thebes
    """
    from contextlib import closing

    from thebes.cli.homes.roles import check_coordinators
    from thebes.coordinator.home import CoordinatorHome
    from thebes.coordinator.storage.database_owner import database_of
    from thebes.coordinator.tasks import removal

    check_coordinators(home, store)
    if bool(tasks) is (before is not None):
        raise Mistake("TASK", "must be named, or else a date with --before, and not both")
    place = CoordinatorHome(home)
    left = 0
    with closing(database_of(place, store)) as database:
        meant = tasks or removal.over(database, _day(before or ""))
        for task in meant:
            try:
                removal.forget(database, place.keys, task, untold=untold)
            except Refusal as refused:
                left += 1
                typer.echo(f"thebes: {task!r} stays: {refused}", err=True)
            else:
                typer.echo(task)
    if not meant:
        typer.echo(f"thebes: no task that is over was put up before {before}; nothing was forgotten", err=True)
    where = store or place.store
    if where.startswith("sqlite:///") and not removal.sweep(Path(where.removeprefix("sqlite:///"))):
        typer.echo("thebes: the database is in use; its journal loses what was deleted before long", err=True)
    if left:
        raise SystemExit(1)


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise Mistake("--before", "must be a date such as 2026-01-31") from None

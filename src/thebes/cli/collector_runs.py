"""Running what is installed at a home: once, or whatever is due, for as long as the process lives."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from thebes.cli.stop_signals import Rest
from thebes.privacy.faults import Mistake, Refusal, ThebesError
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.collectors.declaration import Collector
    from thebes.collectors.installation import Installed, Record
    from thebes.wire.local_server import Local

_TICK_SECONDS = 1.0


def person_of(place: Installed) -> Local:
    """The process that serves the home, or a Refusal that says how to start it."""
    from thebes.wire.local_server import START_SECONDS, Local

    found = Local.running(place.home, patience=START_SECONDS)
    if found is None:
        raise Refusal(f"thebes person does not run for this folder; start it: thebes person --home {place.home}")
    return found


def state_of(place: Installed, made: Collector, app: str) -> dict[str, Any]:
    """Return the state that a collector of that name left in the store before, led to its version, where the home is
    served; else nothing."""
    from thebes.collectors.run import progress
    from thebes.wire.local_server import START_SECONDS, Local

    person = Local.running(place.home, patience=START_SECONDS)
    if person is None:
        return {}
    with person:
        return progress(made, person, app)[1]


def ran(
    place: Installed, record: Record, *, quiet: bool = False, rest: Rest | None = None
) -> tuple[dict[str, Any], ThebesError | None]:
    """One run: what it did, and the error that ended it; both are remembered for `list`. It may end in a `rest` after
    each part that was sent."""
    from dataclasses import replace

    from thebes.collectors.installation import stamp
    from thebes.collectors.registry import load, offer
    from thebes.collectors.run import run as run_once
    from thebes.collectors.session import Outcome

    done, error, version = Outcome(), None, record.version
    try:
        with place.turn(record.app), person_of(place) as person:
            found = offer(record.collector)
            told = found.publication()
            if told is not None:
                place.trust(told)  # before anything of the package runs
            made, _ = load(found)
            version = made.version
            done = run_once(
                made,
                person,
                app=record.app,
                options=options_of(made, record),
                agree=record.agrees,
                sent=_sent(record.app, rest or Rest(), shown=sys.stderr.isatty() and not quiet),
            )
    except ThebesError as raised:
        error = raised
    said = None if error is None else str(error)
    held = place.find(record.app)
    if held is not None:  # it may have been removed, or set up otherwise, meanwhile
        place.write(replace(held, version=version, last_at=stamp(), last_rows=done.inserted, last_error=said))
    if sys.stderr.isatty() and not quiet:
        typer.echo("", err=True)
    if said is None and not quiet:
        known = f", {figure(done.known)} known already" if done.known else ""
        left = "".join(f", {figure(times)} left out: {reason}" for reason, times in done.left_out.items())
        typer.echo(f"{record.app}: {figure(done.inserted)} new rows{known}{left}")
    counts = {"inserted": done.inserted, "known": done.known, "left_out": dict(done.left_out)}
    return {"name": record.app, **counts, "error": said}, error


def previewed(made: Collector, app: str, options: dict[str, Any]) -> None:
    """Tell what a collector would keep, while nothing is kept."""
    from thebes.cli import collector_words
    from thebes.collectors.preview import preview

    for line in collector_words.previewed(preview(made, app, options), app):
        typer.echo(line)
    typer.echo("nothing was installed and nothing was stored; the same command without --preview installs it")


def options_of(made: Collector, record: Record) -> dict[str, Any]:
    """Return the options that were set, with the defaults of options that a newer version has more."""
    from thebes.collectors.options import read_options

    optional = [option for option in made.options if not option.required]
    return {**read_options(optional, []), **record.options}


def due(
    place: Installed, name: str | None, *, quiet: bool, rest: Rest | None = None
) -> Iterator[tuple[dict[str, Any], ThebesError | None]]:
    """Runs whatever is due now."""
    for record in place.records():
        if (name is None or record.app == name) and record.due(datetime.now(UTC)):
            told, error = ran(place, record, quiet=quiet, rest=rest)
            if error is not None:
                typer.echo(f"{record.app}: {error}", err=True)
            yield told, error


def _sent(app: str, rest: Rest, *, shown: bool) -> Callable[[int], None]:
    def sent(rows: int) -> None:
        if shown:
            typer.echo(f"\r{app}: {rows} rows sent", nl=False, err=True)
        rest.rest()

    return sent


def stay(place: Installed, name: str | None) -> None:
    """Until SIGTERM or SIGINT. A run that is under way ends when its next part was sent; what it had not saved then
    counts as not begun."""
    from thebes.wire.local_server import announced

    rest = Rest()
    rest.end_in_it(signal.SIGTERM, signal.SIGINT)
    waiting = False
    with place.staying(name):
        while True:
            # while nobody serves the home everything waits, so that no turn is lost
            if announced(place.home):
                waiting = False
                for _ in due(place, name, quiet=False, rest=rest):
                    rest.rest()
            elif not waiting:
                typer.echo(
                    f"waiting until this runs: thebes person --home {place.home}",
                    err=True,
                )
                waiting = True
            rest.rest(_TICK_SECONDS)


def agreed(question: str, *, else_say: str) -> bool:
    """Ask a person and return the answer; raise a Mistake that names the options to say it with where nobody can be
    asked."""
    try:
        return typer.confirm(question)
    except typer.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        typer.echo()
        raise Mistake(else_say, "is needed where no terminal can ask for it; nothing was changed") from None

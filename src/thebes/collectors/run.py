"""Running a collector once: what it declares, what its state becomes between versions, and what it collects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thebes.collectors.declaration import Collector, State, declaration
from thebes.collectors.session import Outcome, Receiver, Session
from thebes.data.store.declaration import Declaration
from thebes.privacy.faults import Fault, Mistake, ThebesError
from thebes.wire.refusals import NotFound


class CollectorFailed(Fault):
    """A collector's program broke off. What it had inserted in this run was not stored."""


def run(
    collector: Collector,
    home: Receiver,
    *,
    app: str,
    options: Mapping[str, Any],
    agree: Callable[[Declaration], None] | None = None,
    sent: Callable[[int], None] | None = None,
) -> Outcome:
    """Registers, migrates and collects. Either all of the run is stored or nothing of it.

    `agree` is shown what will be declared and may refuse it; `sent` hears how many rows have been sent so far.
    """
    try:
        number, state, behind = progress(collector, home, app)
        tables = declaration(collector, collector.declare(options, state))
        if agree is not None:
            agree(tables)
        home.register(app, tables.body())
        session = Session(home, app, release=collector.version, number=number, state=state, options=options, sent=sent)
        if behind:
            session.save()
        collector.collect(session)
        session.save()
        return session.outcome
    except ThebesError:
        raise
    except OSError as error:
        about = f"{error.filename!r} cannot be read" if error.filename else "the system refused"
        raise Mistake("file", f"{about}: {error.strerror or type(error).__name__}") from None
    except RecursionError:
        raise Mistake("file", "is nested too deeply to be read") from None
    except Exception as error:
        # the words of a foreign error may hold data; its class and place do not
        raise CollectorFailed(
            f"the collector {collector.name} broke off ({_place(error)}); what it had not saved was not stored"
        ) from None


def progress(collector: Collector, home: Receiver, app: str) -> tuple[int, State, bool]:
    """(number of the last delivery, the state for this version, whether that state was led here from an older one)."""
    try:
        held = home.progress(app)
    except NotFound:
        return 0, {}, False
    state, release = dict(held["state"] or {}), int(held["release"])
    if not held["number"]:
        return 0, {}, False
    if release > collector.version:
        raise Mistake(
            "collector",
            f"{collector.name} {release} filled this store; version {collector.version} is older: update it",
        )
    for version in range(max(release, 1), collector.version):
        migration = collector.migrations.get(version)
        state = state if migration is None else migration(state)
        if not isinstance(state, dict):
            raise Mistake("collector.migrations", f"the one from version {version} must return the new state")
    return int(held["number"]), state, release < collector.version


def _place(error: Exception) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f", line {trace.tb_lineno} of {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}"
        trace = trace.tb_next
    return f"{type(error).__name__}{place}"

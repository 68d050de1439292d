"""Checks of a person's machine beyond its files: whether it runs and starts by itself, what its limits leave, what its
collectors came to, and whether the coordinator's list goes on from what was seen.

What must stay true: nothing is changed and no data value shown; a name of a table or a task is none, a row is one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from thebes.cli.homes.findings import HomeFinding, How, found
from thebes.collectors.installation import Installed
from thebes.ledger import BlockState, Ledger, NoKeeper
from thebes.ledger.block_name import base_name
from thebes.person.autostart import UNHEARD, autostart
from thebes.person.budget.blocks import of_period
from thebes.person.budget.budget import period
from thebes.person.settings import TRUSTS, PersonSettings
from thebes.person.tasks.task_feed import pinned_in
from thebes.privacy.faults import Mistake, Refusal, ThebesError
from thebes.privacy.figures import figure
from thebes.wire import task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.list_pin import is_fingerprint
from thebes.wire.local_server import Local
from thebes.wire.refusals import BrokenLog

_WHERE = {
    "local": "noised on this machine",
    "trusted": "where a server is trusted",
    "split": "where one of two servers is trusted",
}


def of_the_machine(home: Path, now: float) -> Iterator[HomeFinding]:
    """Look at one home; `now` is in seconds since 1970."""
    yield _runs(home)
    yield _starts(home)
    try:
        settings = PersonSettings.read(home)
    except Mistake:
        return  # said before
    chosen = "until then nothing is agreed to on the pages; open them and choose: /limits"
    yield found(settings.task is not None, "limits were chosen", chosen, How.ABSENT)
    for never in settings.unreached():
        yield HomeFinding(How.WARNING, "every limit can be reached", f"{never} Change it: /privacy")
    if (home / "ledger.db").is_file():
        yield from _left(home, settings, datetime.fromtimestamp(now, UTC))
    yield from _collectors(home)


def _runs(home: Path) -> HomeFinding:
    what = "`thebes person` runs on this home"
    advice = f"while it is off nothing is answered; start it: thebes person --home {home}"
    if not (home / "lock").exists():
        return HomeFinding(How.ABSENT, what, advice)
    try:
        running = Local.running(home)
    except Refusal as refusal:
        return HomeFinding(How.WARNING, what, str(refusal))
    if running is None:
        return HomeFinding(How.ABSENT, what, advice)
    running.close()
    return HomeFinding(How.OK, what)


def _starts(home: Path) -> HomeFinding:
    what = "it starts with this user's session"
    try:
        there = autostart(home)
    except Refusal as refusal:
        return HomeFinding(How.ABSENT, what, str(refusal))
    if not there.answered():
        hand = f"{UNHEARD}; start it by hand: thebes person --home {home}"
        return HomeFinding(How.WARNING if there.on else How.ABSENT, what, hand)
    return found(there.on, what, f"if it is to: thebes person autostart on --home {home}", How.ABSENT)


def _left(home: Path, settings: PersonSettings, now: datetime) -> Iterator[HomeFinding]:
    """Tell what is left of this period, as the ledger has it; opening a block is left to the machine itself."""
    start, end = period(now, settings.period_days)
    try:
        with Ledger(f"sqlite:///{home / 'ledger.db'}", create=False, keeper=NoKeeper()) as ledger:
            blocks = [block for block in ledger.blocks() if block.state is BlockState.OPEN]
    except ThebesError:
        return  # said before
    for trust in TRUSTS:
        if settings.budgets(trust) != (trust,):
            continue  # part of another, which is told
        limit = settings.allowance(trust).epsilon
        own = [block for block in blocks if base_name(block.name) == of_period(trust, start, end)]
        left = own[-1].remaining.epsilon if own else limit
        what = f"{figure(float(left))} left of the epsilon {figure(float(limit))} until {end}, {_WHERE[trust]}"
        yield found(left > 0, what, "nothing more is agreed to until then, unless limits change: /limits", How.WARNING)


def _collectors(home: Path) -> Iterator[HomeFinding]:
    if not (home / "collectors").is_dir() or not (home / "token").exists():
        none = "data may also be typed in (/welcome); which there are: thebes collector list"
        yield HomeFinding(How.ABSENT, "collectors are installed", none)
        return
    place = Installed(home)
    try:
        records = place.records()
    except Mistake as mistake:
        yield HomeFinding(How.BROKEN, "the records of collectors can be read", str(mistake))
        return
    for record in records:
        run = f"thebes collector run {record.app} --home {home}"
        if record.last_error is not None:
            yield HomeFinding(How.WARNING, f"the collector {record.app} works", f"{record.last_error}; then: {run}")
        elif record.last_at is None:
            yield HomeFinding(How.WARNING, f"the collector {record.app} has run", f"never yet: {run}")
        elif record.next_at() is not None and not place.stayed(record.app):
            stay = f"nothing runs it when it is due: thebes collector run --all --every --home {home}"
            yield HomeFinding(How.WARNING, f"the collector {record.app} runs by itself", stay)
        else:
            yield HomeFinding(How.OK, f"the collector {record.app} ran last at {record.last_at[:16]}")


def of_the_list(home: Path, url: str, proxy: str | None) -> Iterator[HomeFinding]:
    """Read the coordinator's list on from what this home has seen, as the machine itself will, and keep nothing."""
    pinned = pinned_in(home)
    if pinned is None or not (home / "person.db").is_file():
        yield HomeFinding(
            How.ABSENT,
            "the key of the coordinator's list is pinned",
            f"the first key that is seen will be; to name it beforehand: thebes person --home {home} --pin FINGERPRINT",
        )
        return
    shown = pinned if is_fingerprint(pinned) else task_log.fingerprint(pinned)
    what = f"the coordinator's list is signed by the key that was pinned, {shown}"
    try:
        seen = _seen(home)
        with CoordinatorClient(url, proxy=proxy, retries=0) as client:
            body = client.log(after=seen.length)
        if is_fingerprint(pinned) and task_log.fingerprint(str(body.get("key"))) == pinned:
            pinned = str(body["key"])
        if body.get("key") != pinned:
            moved = "another signs it: where the key before signed that, the machine follows by itself; else ask"
            yield HomeFinding(How.WARNING, what, f"{moved} whoever runs the coordinator, and compare its page /log")
            return
        task_log.verify(body, key=pinned, seen=seen)
    except BrokenLog as broken:
        yield HomeFinding(How.BROKEN, what, str(broken))
    except (ThebesError, sqlite3.Error):
        return  # said elsewhere: it does not answer, or its task store cannot be read
    else:
        yield HomeFinding(How.OK, what)


def _seen(home: Path) -> task_log.Seen:
    with closing(sqlite3.connect(f"{(home / 'person.db').as_uri()}?mode=ro", uri=True, timeout=10)) as opened:
        row = opened.execute("SELECT value FROM fact WHERE name = 'seen'").fetchone()
    return task_log.Seen(**json.loads(row[0])) if row else task_log.Seen()

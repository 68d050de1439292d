"""Checks that the keys of a home are there, whole, and belong together."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
from cryptography import x509

from thebes.cli.homes.findings import HomeFinding, How, found
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.hardware_key import HardwareKeyAway
from thebes.coordinator.auth.signers import key_of
from thebes.coordinator.auth.site_certificates import few
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import LOG_KEY, NEXT_LOG_KEY, lost_key
from thebes.coordinator.tasks.states import Status
from thebes.data import keys
from thebes.data.store.vault import connect
from thebes.privacy.faults import ThebesError
from thebes.wire.certificates import issued
from thebes.wire.task_log import listed_successor, public_key

#: what `keys_of` is asked about, in any database of a coordinator
TASKS = "SELECT id, status, trusted, sites IS NULL FROM coordinator_task"
SOON = timedelta(days=7)  #: before a certificate ends
_BEFORE_AUTHORITY = timedelta(days=90)  #: time enough to bring every site a new `link/`
_ISSUE = "thebes ca issue"
_SECRET_BYTES = 32
_PLACES = {"keyring": "in the system's keyring", "file": "in a file", "passphrase": "nowhere: it is a passphrase"}
_GRACE_SECONDS = 60.0  #: a key is made before its task, and destroyed after it


# --- a person ---------------------------------------------------------------------------------------------------


def of_a_person(home: Path, passphrase: str | None) -> Iterator[HomeFinding]:
    """Check whether the home's key is there and opens every file of the store."""
    what = "the store's key opens the store"
    try:
        kept = keys.kept(home)
    except ThebesError as error:
        yield HomeFinding(How.BROKEN, what, str(error))
        return
    databases = sorted((home / "store").glob("*.db"))
    if kept is None:
        advice = "there is a store and no key.json: bring both back from a copy; without its key nobody reads a store"
        yield found(not databases, "a key is made at the first start", advice)
        return
    if kept == "passphrase" and passphrase is None:
        yield HomeFinding(How.ABSENT, what, "not looked at: its passphrase is read from THEBES_PASSPHRASE")
        return
    try:
        key = keys.key_of(home, passphrase=passphrase)
        for path in databases:
            with closing(connect(path, key)) as opened:
                opened.execute("SELECT count(*) FROM sqlite_master").fetchall()
    except ThebesError as error:
        yield HomeFinding(How.BROKEN, what, str(error))
    except apsw.Error as error:
        yield HomeFinding(How.BROKEN, what, f"{type(error).__name__}; bring back a copy (thebes restore)")
    else:
        yield HomeFinding(How.OK, f"{what}; it is kept {_PLACES[kept]}")


# --- a coordinator ----------------------------------------------------------------------------------------------


def of_a_coordinator(home: Path, now: float) -> Iterator[HomeFinding]:
    for name, use in ((LOG_KEY, "signs the task list"), ("session.key", "signs who has logged in")):
        path = home / name
        gone = name == LOG_KEY and lost_key(home)
        whole = not gone and (not path.exists() or len(path.read_bytes()) == _SECRET_BYTES)
        state = "gone" if gone else "cut off"
        advice = f"it is {state}: stop the coordinator and bring back a copy; a new one makes people refuse the list"
        yield found(whole, f"{name} {use}", advice)
    if (home / "coordinator.db").is_file():
        yield from _list_key(home)
        yield from _task_keys(home, now)
    authority = CertificateAuthority(home, SystemClock())
    for signer in authority.signers():
        what = "the authority's key is that of its certificate"
        yield from _pair(signer.certificate_file, signer.key_file, what, now, _BEFORE_AUTHORITY, "thebes rotate ca")
    if authority.exists:
        register = authority.folder / "register.json"
        try:
            if register.exists():
                json.loads(register.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            advice = "without ca/register.json no site is let in: bring it back from a copy, or issue new certificates"
            yield HomeFinding(How.BROKEN, "the register of certificates can be read", advice)
        else:
            yield from _ending(authority, now)
            yield from _exchanged(authority)


def _exchanged(authority: CertificateAuthority) -> Iterator[HomeFinding]:
    """Warn where another authority is taking the place of the one before, and say what that waits for."""
    if len(authority.signers()) > 1:
        behind = authority.behind()
        waits = f"{few(behind)} must come with a certificate of the new one first: thebes ca issue NAME"
        advice = f"two do, until the old one is ended: thebes ca end-old{f'; {waits}' if behind else ''}"
        yield HomeFinding(How.WARNING, "one authority certifies the sites", advice)


def _ending(authority: CertificateAuthority, now: float) -> Iterator[HomeFinding]:
    """Check for sites whose last certificate ends soon. A certificate that has ended already may be of a site that went
    for good."""
    moment = datetime.fromtimestamp(now, UTC)
    last = {site: authority.ends(site) for site in authority.sites()}
    soon = sorted(site for site, ends in last.items() if ends is not None and moment < ends <= moment + SOON)
    advice = f"those of {few(soon)} do not: thebes ca issue NAME"
    yield found(not soon, "every site's certificate counts for another week", advice, How.WARNING)


def _list_key(home: Path) -> Iterator[HomeFinding]:
    """Check whether the list is signed by the key that it names, where it was ever replaced."""
    what = "log.key is the one that the list names last"
    listed = "SELECT task_id FROM coordinator_entry WHERE task_id LIKE 'key~%' ORDER BY \"index\" DESC LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{(home / 'coordinator.db').as_uri()}?mode=rw", uri=True, timeout=10)) as opened:
            row = opened.execute(listed).fetchone()
        private = (home / LOG_KEY).read_bytes()
    except (sqlite3.Error, OSError):
        return  # said before, or made at the first start
    if (home / NEXT_LOG_KEY).exists():
        advice = "another was about to take its place; end that: thebes rotate log.key"
        yield HomeFinding(How.WARNING, what, advice)
    elif row is not None and len(private) == _SECRET_BYTES:
        advice = "it is another one, and people refuse what it signs: bring back the newest copy of log.key"
        yield found(row[0] == listed_successor(public_key(private)), what, advice)


def _task_keys(home: Path, now: float) -> Iterator[HomeFinding]:
    """The same of a database in the home."""
    try:
        with closing(sqlite3.connect(f"{(home / 'coordinator.db').as_uri()}?mode=rw", uri=True, timeout=10)) as opened:
            tasks = opened.execute(TASKS).fetchall()
    except sqlite3.Error:
        return  # said before
    yield from keys_of(tasks, home, now)


def keys_of(tasks: Iterable[tuple[str, str, int, bool]], home: Path, now: float) -> Iterator[HomeFinding]:
    """Check whether each of these tasks (what `TASKS` selects, wherever the database is) that needs its key has it in
    the home, and no key outlives its task."""
    tasks = list(tasks)
    try:
        there = {path.name: path.stat().st_mtime for path in (home / "keys").glob("[0-9a-f]*")}
    except OSError:
        return  # said before
    open_ = {task for task, status, trusted, people in tasks if not Status(status).final and (trusted or people)}
    over = {task for task, status, trusted, _ in tasks if Status(status).final and trusted}
    missing, left = open_ - set(there), {task for task in over & set(there) if there[task] < now - _GRACE_SECONDS}
    advice = f"{len(missing)} have none, and never come to an answer: cancel them (thebes task cancel)"
    advice += "; where the home or its database came back: stop the coordinator, thebes settle"
    yield found(not missing, "every task under way has its key", advice)
    advice = f"{len(left)} are there still: start the coordinator, which destroys them"
    yield found(not left, "no key outlives its trusted task", advice)


# --- a site -----------------------------------------------------------------------------------------------------


def of_a_site(home: Path, now: float) -> Iterator[HomeFinding]:
    link = home / "link"
    missing = [name for name in ("ca.pem", "site.pem", "site.key") if not (link / name).is_file()]
    if missing:
        advice = f"link/ lacks {', '.join(missing)}; the coordinator's operator makes them: thebes ca issue"
        yield HomeFinding(How.BROKEN, "the site has a certificate", advice)
        return
    yield from _pair(link / "site.pem", link / "site.key", "the site's key is that of its certificate", now)
    what = "the certificate is of the authority that the site believes"
    try:
        shown = x509.load_pem_x509_certificate((link / "site.pem").read_bytes())
    except ValueError:
        return  # said before
    try:
        believed = x509.load_pem_x509_certificates((link / "ca.pem").read_bytes())
    except ValueError:
        believed = []
    advice = "they come from two coordinators; ask for both anew: thebes ca issue"
    yield found(any(issued(shown, by=each) for each in believed), what, advice)
    if len(believed) > 1:
        advice = "it believes an older one too, until that is ended at the coordinator; then ask for a link/ without it"
        yield HomeFinding(How.WARNING, "the site believes one authority", f"{advice}: thebes ca issue")


def _pair(
    certificate: Path, key: Path, what: str, now: float, before: timedelta = SOON, command: str = _ISSUE
) -> Iterator[HomeFinding]:
    """Check whether a key belongs to a certificate, and for how long that counts."""
    try:
        shown = x509.load_pem_x509_certificate(certificate.read_bytes())
        public = key_of(key).public_key()
    except HardwareKeyAway as away:
        yield HomeFinding(How.BROKEN, what, f"{away}; without it nothing is signed")
        return
    except (OSError, ValueError, TypeError):
        yield HomeFinding(
            How.BROKEN, what, f"{certificate.name} or {key.name} is missing or damaged; bring back a copy"
        )
        return
    yield found(shown.public_key() == public, what, "they are of different issues; put both in place again")
    moment = datetime.fromtimestamp(now, UTC)
    begins, ends = shown.not_valid_before_utc, shown.not_valid_after_utc
    what = f"{certificate.name} counts until {ends:%Y-%m-%d}"
    if moment < begins:
        yield HomeFinding(How.BROKEN, what, "it does not count yet: this machine's clock is behind; set it")
    elif moment >= ends:
        yield HomeFinding(How.BROKEN, what, f"it has ended; the coordinator's operator makes a new one: {command}")
    else:
        yield found(moment < ends - before, what, f"ask for a new one soon: {command}", How.WARNING)

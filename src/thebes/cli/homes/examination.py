"""Is a home able to keep its role's promises? Everything is looked at, nothing is changed.

What must stay true: no finding shows a secret or a data value; what cannot be looked at is said to be so.
"""

from __future__ import annotations

import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from thebes import machine
from thebes.cli.homes.findings import HomeFinding, How, found
from thebes.cli.homes.identities import keys_of, of_a_coordinator, of_a_person, of_a_site
from thebes.cli.homes.persons_machine import of_the_list, of_the_machine
from thebes.cli.homes.reachability import database_at, over_http, over_tls
from thebes.cli.homes.roles import role_of
from thebes.cli.homes.snapshot import STAGE
from thebes.coordinator import settings as coordinator_settings
from thebes.coordinator.home import named_in
from thebes.database import version_mark
from thebes.ledger import Ledger, NoKeeper, Tampered
from thebes.ledger.keeper import UNNOTICED, WHAT_HELPS, system_keeper
from thebes.person.settings import PersonSettings
from thebes.privacy.faults import Mistake, ThebesError
from thebes.site.budget.policy_file import PolicyFile
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.tasks import registry
from thebes.wire.homes import HomeRole

if TYPE_CHECKING:
    from thebes.database.versions import Versions

TOO_LITTLE, LITTLE = 64 * 2**20, 2**30  #: bytes that are free
_SCHEMAS = {"ledger.db": "thebes.ledger.schema", "coordinator.db": "thebes.coordinator.storage.schema"}
#: what only its owner may read, beside every database; the folder above keeps others out of the rest
_SECRETS = (
    "token",
    "key.json",
    "admin.token",
    "figures.token",
    "log.key",
    "log.key.next",
    "session.key",
    "groups/*",
    "keys/*",
    "ca/authority*.key",
    "ca/hub.pem",
    "link/site.key",
    "helper.key",
    "helping/*",
    "joining/site.key",
    "ca/join_codes.json",
    "cache/*.key",
    "*.db",
    "cache/*.db",
    "growing/*/*.db",
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The things outside the home, as far as they were said. `coordinator` is a URL, or HOST:PORT for sites; `clock` is
    seconds since 1970."""

    coordinator: str | None = None
    store: str | None = None
    passphrase: str | None = None
    clock: Callable[[], float] = time.time


def examined(home: Path, around: Surroundings) -> Iterator[HomeFinding]:
    """Everything that was found in a home and about it."""
    home = home.resolve()
    role = role_of(home)
    yield HomeFinding(How.OK, f"{home} is the home of a {role}")
    owned = home.stat().st_uid == machine.user()
    yield found(owned, "the home is this user's own", "run this, and the role itself, as the user that it belongs to")
    if not owned:
        return
    yield from _permissions(home)
    yield from _space(home)
    for path in sorted(home.rglob("*.db")):
        first = path.relative_to(home).parts[0]
        if first == "store" or first.startswith(STAGE):
            continue
        said = list(_database(path, home))
        yield from said
        if path == home / "ledger.db" and all(finding.how is How.OK for finding in said):
            yield from _ledger(home)
    yield from _of_the_role(home, role, around)
    yield from _around(home, role, around)


def _permissions(home: Path) -> Iterator[HomeFinding]:
    mode = stat.S_IMODE(home.stat().st_mode)
    yield found(not mode & 0o077, "nobody else can look into the home", f"run: chmod 700 {home}")
    strangers = [path for path in home.rglob("*") if not path.is_symlink() and path.stat().st_uid != machine.user()]
    advice = f"{len(strangers)} do not, made perhaps by a command that was run as another user; run chown on them"
    yield found(not strangers, "everything in the home belongs to this user", advice)
    secrets = {path for pattern in _SECRETS for path in home.glob(pattern) if path.is_file()}
    readable = sorted(str(path.relative_to(home)) for path in secrets if path.stat().st_mode & 0o077)
    advice = f"run chmod 600 on {', '.join(readable[:5])}{' and more' if len(readable) > 5 else ''}"
    yield found(not readable, f"{len(secrets)} secrets and databases are for their owner only", advice)
    if any(home.glob(f"{STAGE}*")):
        why = "`thebes backup` is at work, or was killed; the next one clears it away"
        yield HomeFinding(How.WARNING, "a copy that was begun lies in the home", why)


def _space(home: Path) -> Iterator[HomeFinding]:
    free = shutil.disk_usage(home).free
    how = How.OK if free >= LITTLE else How.WARNING if free >= TOO_LITTLE else How.BROKEN
    shown = f"{free / 2**30:.1f} GiB" if free >= LITTLE else f"{free / 2**20:.0f} MiB"
    yield HomeFinding(
        how, f"{shown} are free on its disk", "make room: on a full disk nothing is spent and nothing said"
    )


def _database(path: Path, home: Path) -> Iterator[HomeFinding]:
    name = str(path.relative_to(home))
    versions: Versions | None = import_module(_SCHEMAS[name]).VERSIONS if name in _SCHEMAS else None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=10)) as opened:
            sound = opened.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
            version = _version(opened, versions)
            number = int(opened.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        advice = f"{type(error).__name__}: bring back a copy (thebes restore), or find out what holds it"
        yield HomeFinding(How.BROKEN, f"{name} can be read", advice)
        return
    yield found(sound, f"{name} is whole", "it is damaged: stop the role and bring back a copy (thebes restore)")
    if versions is not None and sound:
        yield _of_version(name, version, versions)
    elif number > version_mark.NEWEST:
        yield _of_newer(f"{name} has the tables of this version")


def _version(opened: sqlite3.Connection, versions: Versions | None) -> str | None:
    if versions is None:
        return None
    there = "SELECT count(*) FROM sqlite_master WHERE name = ?"
    if not opened.execute(there, (versions.table,)).fetchone()[0]:
        return None
    row = opened.execute(f"SELECT version_num FROM {versions.table}").fetchone()  # noqa: S608
    return None if row is None else str(row[0])


def _of_version(name: str, version: str | None, versions: Versions) -> HomeFinding:
    from thebes.database.versions import UNRELEASED

    what = f"{name} has the tables of this version"
    if version == versions.newest:
        return HomeFinding(How.OK, what)
    if versions.before_first(version):
        return HomeFinding(How.BROKEN, what, f"it {UNRELEASED}")
    if version is None or version < versions.newest:
        return HomeFinding(
            How.WARNING, what, "they are older, and are brought up to date at the next start; copy it before"
        )
    return _of_newer(what)


def _of_newer(what: str) -> HomeFinding:
    return HomeFinding(
        How.BROKEN, what, "they were made by a newer Thebes: install that one, this one will not open them"
    )


def _ledger(home: Path) -> Iterator[HomeFinding]:
    """The journal and the balances of a ledger, and whether it may spend. Its tables are those of this version: else
    opening it would change them."""
    what = "the ledger's journal and balances fit together"
    try:
        with Ledger(f"sqlite:///{home / 'ledger.db'}", create=False, keeper=NoKeeper()) as ledger:
            kept = system_keeper().kept(ledger.id)
            ledger.verify(*([] if kept is None else [kept]))
            frozen, moved, head = ledger.frozen, ledger.moved, ledger.head()
    except Tampered as tampered:
        advice = f"{len(tampered.findings)} differences; `thebes ledger verify --home {home}` names them"
        yield HomeFinding(How.BROKEN, what, advice)
        return
    except ThebesError as error:
        yield HomeFinding(How.BROKEN, what, str(error))
        return
    yield HomeFinding(How.OK, what)
    advice = f"it is frozen, because it came back from a copy; its owner can run: thebes ledger thaw --home {home}"
    if moved:
        advice = (
            f"it moved to another device, and lives there; destroy what is here: thebes person --home {home} --destroy"
        )
    yield found(not frozen, "the ledger may spend", advice, How.WARNING)
    unseen = f"{UNNOTICED}; {WHAT_HELPS}"
    if kept is not None:
        unseen = f"the keyring remembers {kept.length} of its {head.length} entries: a copy made since is not noticed"
    yield found(kept == head, "an older copy put in the ledger's place would be noticed", unseen, How.ABSENT)


def _of_the_role(home: Path, role: HomeRole, around: Surroundings) -> Iterator[HomeFinding]:
    now = around.clock()
    if role is HomeRole.PERSON:
        yield _settings("person.toml", lambda: PersonSettings.read(home))
        yield from of_a_person(home, around.passphrase)
        yield from of_the_machine(home, now)
    if role is HomeRole.COORDINATOR:
        yield _settings(coordinator_settings.FILE, lambda: coordinator_settings.read(home))
        yield from of_a_coordinator(home, now)
    if role is HomeRole.SITE:
        yield from of_a_site(home, now)
    if role in (HomeRole.SITE, HomeRole.COORDINATOR) and (home / "datasets").is_dir():
        yield from _declared(home)


def _settings(name: str, read: Callable[[], object]) -> HomeFinding:
    try:
        read()
    except Mistake as mistake:
        return HomeFinding(How.BROKEN, f"{name} can be read", str(mistake))
    return HomeFinding(How.OK, f"{name} can be read, or is not there")


def _declared(home: Path) -> Iterator[HomeFinding]:
    if any(stat.S_IMODE(place.stat().st_mode) & 0o077 for place in (home, home / "datasets")):
        return  # said before; to open it would change that
    site = SiteHome(home)
    policy = PolicyFile(site.policy)()
    what = "policy.toml says who may ask"
    if policy.trouble is not None:
        yield HomeFinding(How.BROKEN, what, f"everything is refused: {policy.trouble}")
    else:
        yield found(bool(policy.rules), what, "it has no rule, so that everything is refused", How.WARNING)
    datasets = DataSets(site)
    if policy.rules:
        missing = policy.missing(registry.site_types(), datasets.names())
        yield found(not missing, "every rule of policy.toml names what is there", missing, How.WARNING)
    for name in datasets.names():
        try:
            datasets.get(name)
        except Mistake as mistake:
            yield HomeFinding(How.BROKEN, f"the data set {name} is declared in a way that can be read", str(mistake))
        else:
            yield HomeFinding(How.OK, f"the data set {name} is declared in a way that can be read")


def _around(home: Path, role: HomeRole, around: Surroundings) -> Iterator[HomeFinding]:
    coordinator, proxy = around.coordinator, None
    if role is HomeRole.PERSON:
        try:
            settings = PersonSettings.read(home)
        except Mistake:
            return  # said before; without it nobody knows which way to take
        coordinator, proxy = coordinator or settings.coordinator, settings.proxy
    if coordinator is None:
        if role in (HomeRole.PERSON, HomeRole.SITE):
            yield HomeFinding(
                How.ABSENT, "the coordinator can be reached", "not looked at; say where with --coordinator"
            )
    elif role is HomeRole.SITE and "//" not in coordinator:
        yield from over_tls(coordinator, home)
    else:
        yield from over_http(coordinator, proxy, around.clock, waits=role is HomeRole.PERSON)
        if role is HomeRole.PERSON:
            yield from of_the_list(home, coordinator, proxy)
    if around.store is not None:
        works_on = named_in(home) if role is HomeRole.COORDINATOR else None
        of_tasks = partial(keys_of, home=home, now=around.clock())
        yield from database_at(around.store, _of_version, around.clock, works_on=works_on, keys_of=of_tasks)
    elif role is HomeRole.COORDINATOR and not (home / "coordinator.db").exists():
        yield HomeFinding(How.ABSENT, "the database can be reached", "it is not in the home; say where with --store")

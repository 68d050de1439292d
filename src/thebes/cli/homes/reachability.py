"""Checks that what a role speaks with can be reached, and that their clocks agree."""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.cli.homes.findings import HomeFinding, How, found
from thebes.cli.homes.identities import TASKS
from thebes.privacy.faults import Mistake, ThebesError
from thebes.site.link.proxy import is_usable, proxy_of
from thebes.wire.address import base_url
from thebes.wire.client import CoordinatorClient
from thebes.wire.link import SERVER_NAME
from thebes.wire.refusals import Unreachable

if TYPE_CHECKING:
    from thebes.database.versions import Versions

APART, TOO_FAR = 30.0, 300.0  #: seconds between two clocks; certificates count from five minutes before
_PATIENCE = 10.0


#: told to a person, whose machine is well while a coordinator is away
WAITS = "nothing is lost: what you agreed to waits until it answers. If it stays so, ask whoever gave you this address"


def over_http(url: str, proxy: str | None, clock: Callable[[], float], *, waits: bool = False) -> Iterator[HomeFinding]:
    """One request to a coordinator, on the way that everything else takes. An address with a password is a Mistake,
    which does not show it. `waits`: who asks for the examination goes on without it."""
    try:
        base_url(url)
    except Mistake as mistake:
        raise Mistake("--coordinator", mistake.message) from None
    what = f"the coordinator at {url} answers"
    try:
        with CoordinatorClient(url, proxy=proxy, retries=0) as client:
            began = clock()
            theirs = client.clock()
            mine = (began + clock()) / 2
            private = client.private
    except ThebesError as error:
        why = error.message if isinstance(error, Unreachable) else str(error)
        if waits:
            yield HomeFinding(How.WARNING, f"the coordinator at {url} does not answer now", f"{why}; {WAITS}")
        else:
            yield HomeFinding(How.BROKEN, what, why)
        return
    yield HomeFinding(How.OK, what)
    why = "it is not encrypted: whoever is on the way reads and changes what is said; use https"
    yield found(private, "nobody on the way can listen", why, How.WARNING)
    if theirs is not None:
        yield _clocks("this machine and the coordinator", mine - theirs - 0.5)  # it says whole seconds, rounded down


def _clocks(whose: str, apart: float) -> HomeFinding:
    how = How.OK if abs(apart) <= APART else How.WARNING if abs(apart) <= TOO_FAR else How.BROKEN
    ahead = "ahead" if apart > 0 else "behind"
    return HomeFinding(
        how, f"the clocks of {whose} agree", f"this one is {abs(apart):.0f} seconds {ahead}; set it by NTP"
    )


def over_tls(address: str, home: Path) -> Iterator[HomeFinding]:
    """A connection as a site makes it, both certificates shown and verified, and nothing said on it."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or "@" in host or not port.isdecimal():
        raise Mistake("--coordinator", "must be HOST:PORT, or an address that begins with https://")
    what = f"the coordinator at {address} is the one that the site's certificate names"
    proxy = proxy_of(address)
    if proxy is not None and not is_usable(proxy):
        why = "the proxy that the environment names for it is not one of HTTP, so a site goes past it; name one of HTTP"
        yield HomeFinding(How.BROKEN, what, why)
        return
    if proxy is not None:
        why = "not looked at: the environment names a proxy for it, which a site goes by; the site's page says whether"
        yield HomeFinding(How.ABSENT, what, f"{why} it is linked")
        return
    link = home / "link"
    try:
        context = ssl.create_default_context(cafile=str(link / "ca.pem"))
        context.load_cert_chain(str(link / "site.pem"), str(link / "site.key"))
    except (OSError, ssl.SSLError):
        return  # said before
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as raw,
            context.wrap_socket(raw, server_hostname=SERVER_NAME) as link_,
        ):
            # In TLS 1.3 a server says after the handshake that it does not want this certificate.
            accepted = bool(link_.recv(1))
    except ssl.SSLCertVerificationError as error:
        advice = f"{error.verify_message}; is it another coordinator, has it another authority, or is a clock wrong?"
        yield HomeFinding(How.BROKEN, what, advice)
    except ssl.SSLError:
        yield HomeFinding(How.BROKEN, what, "it does not take the site's certificate; ask its operator: thebes ca list")
    except TimeoutError:
        yield HomeFinding(
            How.BROKEN, what, "nothing answered in time; check the address and whether a firewall is between"
        )
    except OSError as error:
        advice = f"{error.strerror or type(error).__name__}; is `thebes coordinator --site-port` running there?"
        yield HomeFinding(How.BROKEN, what, advice)
    else:
        yield found(accepted, what, "it hung up; ask its operator whether the certificate was revoked: thebes ca list")


def database_at(
    where: str,
    of_version: Callable[[str, str | None, Versions], HomeFinding],
    clock: Callable[[], float],
    *,
    works_on: str | None = None,
    keys_of: Callable[[list[Any]], Iterator[HomeFinding]] | None = None,
) -> Iterator[HomeFinding]:
    """A PostgreSQL with the tables of a coordinator or a ledger, whether it is the one of that name that a home works
    on, and if so what `keys_of` says of its tasks. Its address is not shown: it may hold a password."""
    import sqlalchemy as sa

    from thebes.coordinator.storage.schema import CALLED
    from thebes.coordinator.storage.schema import VERSIONS as COORDINATOR
    from thebes.ledger.schema import VERSIONS as LEDGER

    what = "the database can be reached"
    if not where.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        raise Mistake("--store", "must be the address of a PostgreSQL; a file is found in the home")
    try:
        url = sa.make_url(where.replace("postgres://", "postgresql://", 1)).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, hide_parameters=True, connect_args={"connect_timeout": int(_PATIENCE)})
    except (sa.exc.ArgumentError, ValueError):
        raise Mistake("--store", "must be an address: postgresql://USER@HOST/DATABASE") from None
    except ImportError:
        yield HomeFinding(How.BROKEN, what, "psycopg is missing: pip install 'thebes[postgres]'")
        return
    try:
        with warnings.catch_warnings(), engine.connect() as connection:
            mine = clock()
            theirs = float(connection.scalar(sa.text("SELECT extract(epoch FROM clock_timestamp())")) or 0.0)
            writes = not connection.scalar(sa.text("SELECT pg_is_in_recovery()"))
            versions = [(each, each.of(connection)) for each in (COORDINATOR, LEDGER)]
            named = sa.inspect(connection).has_table(CALLED.name)
            name = connection.scalar(sa.select(CALLED.c.name)) if named else None
            ours = keys_of is not None and works_on is not None and name == works_on
            tasks = connection.execute(sa.text(TASKS)).all() if ours else None
    except sa.exc.SQLAlchemyError as error:
        original = getattr(error, "orig", None) or error
        said = " ".join(filter(None, (type(original).__name__, getattr(original, "sqlstate", None))))
        yield HomeFinding(How.BROKEN, what, f"{said}; check address, name and password")
        return
    finally:
        engine.dispose()
    yield HomeFinding(How.OK, what)
    yield found(writes, "the database takes changes", "it is a standby: give the address of the primary")
    for each, version in versions:
        if version is not None:
            yield of_version("the database", version, each)
    if works_on is not None:
        yield found(
            name == works_on, "the database is the one that this home works on", "it is another one: see --store"
        )
    if keys_of is not None and tasks is not None:
        yield from keys_of([tuple(task) for task in tasks])
    yield _clocks("this machine and the database", mine - theirs)

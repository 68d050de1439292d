"""The probe of why a coordinator and this site do not come together: one handshake more, whose end is looked at.

The library that speaks with the coordinator keeps to itself how a handshake failed. This sends nothing and lowers no
guard: whether the other one is the coordinator is verified here, and that a coordinator hangs up as soon as it has seen
the site's certificate says that it does not take it.
"""

from __future__ import annotations

import os
import socket
import ssl
from datetime import UTC, datetime

from thebes.site.home import AUTHORITY, CERTIFICATE, KEY
from thebes.site.link.certificate import ISSUE, SiteIdentity
from thebes.site.link.proxy import proxy_of
from thebes.wire.link import SERVER_NAME

_SECONDS = 5.0  #: for the connection, and again for the coordinator's first byte
_TIMES = (9, 10)  #: X.509's verdicts "not yet valid" and "expired"


def trouble(coordinator: str, identity: SiteIdentity, folder: int) -> str | None:
    """Tell what is wrong with the coordinator's certificate, or in its eyes with that of the site in the opened
    `folder`; None where nothing is, or where nobody can be asked, as by way of a proxy."""
    if proxy_of(coordinator) is not None:  # which this would not go by
        return None
    host, _, port = coordinator.rpartition(":")
    try:
        context = _context(folder)
        line = socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS)
    except (OSError, ValueError):
        return None
    with line:
        line.settimeout(_SECONDS)
        try:
            spoken = context.wrap_socket(line, server_hostname=SERVER_NAME)
        except ssl.SSLCertVerificationError as refused:
            return _of_the_coordinator(refused.verify_code, identity.name)
        except OSError:
            return None
        with spoken:
            return None if _goes_on(spoken) else _of_the_site(identity)


def _context(folder: int) -> ssl.SSLContext:
    place = f"/proc/self/fd/{folder}"
    if not os.path.isdir(place):
        raise FileNotFoundError(place)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(f"{place}/{AUTHORITY}")
    context.load_cert_chain(f"{place}/{CERTIFICATE}", f"{place}/{KEY}")
    context.set_alpn_protocols(["h2"])
    return context


def _goes_on(spoken: ssl.SSLSocket) -> bool:
    """Return whether the other side still talks, or at least listens, after it has seen the certificate."""
    try:
        return bool(spoken.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False


def _of_the_coordinator(verdict: int, name: str) -> str:
    if verdict in _TIMES:
        now = datetime.now(UTC)
        return (
            f"the coordinator's certificate does not count at {now:%Y-%m-%d %H:%M} UTC; is this machine's clock right?"
        )
    return (
        f"whoever listens at this address is not certified by the authority in link/{AUTHORITY}: it is not the "
        f"coordinator, or the coordinator has a new authority, and then {ISSUE.replace('NAME', name, 1)}"
    )


def _of_the_site(identity: SiteIdentity) -> str:
    from cryptography import x509

    from thebes.wire.certificates import issued

    issue = ISSUE.replace("NAME", identity.name, 1)
    told = f"the coordinator does not take the certificate of the site {identity.name}"
    own = x509.load_pem_x509_certificate(identity.certificate)
    if not any(issued(own, by=each) for each in x509.load_pem_x509_certificates(identity.authority)):
        return f"{told}, which is not from the authority in link/{AUTHORITY}; {issue}"
    ends, now = own.not_valid_after_utc, datetime.now(UTC)
    return f"{told}, which ends on {ends:%Y-%m-%d}; here it is {now:%Y-%m-%d %H:%M} UTC: is that right? If so, {issue}"

"""The certificate with which a site shows who it is: what stands in it, and whether it can be used.

The three files lie in HOME/link. The process that talks is given that folder, opened, and nothing of the home.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime

from thebes import machine
from thebes.privacy.faults import Refusal
from thebes.site.home import AUTHORITY, CERTIFICATE, KEY
from thebes.tasks.site_document import SITE_NAME

URI = "thebes://site/"
ISSUE = (
    "the coordinator's operator makes a join code (thebes ca invite NAME --home COORDINATOR_HOME), by which this site "
    "gets one: thebes site join URL --home SITE_HOME"
)
_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SiteIdentity:
    """The identity that a site shows: PEM bytes, the name in them, and until when they count."""

    name: str
    ends: datetime
    authority: bytes
    certificate: bytes
    key: bytes


def read(folder: int, *, now: datetime | None = None) -> SiteIdentity:
    """The identity in an opened folder, or a Refusal that says what to do."""
    from cryptography import x509

    authority, certificate, key = (_file(folder, name, secret=name == KEY) for name in (AUTHORITY, CERTIFICATE, KEY))
    try:
        read = x509.load_pem_x509_certificate(certificate)
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (ValueError, x509.ExtensionNotFound):
        raise Refusal(f"link/{CERTIFICATE} is not a site's certificate; {ISSUE}") from None
    name = uris[0].removeprefix(URI) if len(uris) == 1 and uris[0].startswith(URI) else ""
    if not re.fullmatch(SITE_NAME, name):
        raise Refusal(f"link/{CERTIFICATE} is not a site's certificate; {ISSUE}")
    if (now or datetime.now(UTC)) >= read.not_valid_after_utc:
        raise Refusal(
            f"the certificate of the site {name} ended on {read.not_valid_after_utc:%Y-%m-%d}; "
            f"{ISSUE.replace('NAME', name, 1)}"
        )
    return SiteIdentity(name, read.not_valid_after_utc, authority, certificate, key)


def stamps(folder: int) -> tuple[tuple[int, int], ...]:
    """Return what changes when one of the files does."""
    found = []
    for name in (AUTHORITY, CERTIFICATE, KEY):
        try:
            facts = os.stat(name, dir_fd=folder)
            found.append((facts.st_ino, facts.st_mtime_ns))
        except OSError:
            found.append((0, 0))
    return tuple(found)


def _file(folder: int, name: str, *, secret: bool) -> bytes:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        raise Refusal(f"there is no certificate for this site (no link/{name}); {ISSUE}") from None
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if secret and (facts.st_uid != machine.user() or stat.S_IMODE(facts.st_mode) & 0o077):
            raise Refusal(f"link/{name} can be read by others or belongs to somebody else; {ISSUE}")
        return file.read(_MOST_BYTES)

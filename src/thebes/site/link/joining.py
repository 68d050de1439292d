"""Joining a coordinator with a one-time code: the key is made here and stays here.

What must stay true: a request is on disk, with its key, before it is sent, so that the same one is sent again after
any crash; an answer is believed only where it proves that the code's giver made it, and has the authorities that the
code names; `link/` has all of a certificate or what it had before, once whoever uses it has called `resume`.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from thebes.database import private_files
from thebes.database.folder_sync import settle
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.home import AUDIT, AUTHORITY, CERTIFICATE, KEY, SiteHome
from thebes.site.link import certificate
from thebes.site.steward.audit_log import Audit
from thebes.wire.certificates import issued
from thebes.wire.join_codes import JoinCode, answer_proof, equal, request_proof
from thebes.wire.local_server import HomeInUse

FOLDER, REQUEST = "joining", "request.pem"
JOINED = "joined"  #: in `link/`: the name of the code that was used last
_FORGED = (
    "what answered did not prove that it is the coordinator which gave this code; nothing was changed. Check the "
    "address, and with the operator that the code is theirs: somebody may stand in between"
)


class JoinDoor(Protocol):
    """A coordinator, as far as joining goes."""

    def join(self, *, code: str, request: str, proof: str) -> dict[str, str]:
        """The answer to a request."""


def join(home: SiteHome, code: JoinCode, door: JoinDoor) -> certificate.SiteIdentity:
    """Get a certificate by a code, and put it into `link/`. Again with the same code changes nothing."""
    if home.of_a_coordinator:
        raise Mistake("--home", "is a coordinator's home, whose own site needs no certificate")
    with closing(home.hold_joining()):
        settled(home)
        home.link.mkdir(mode=0o700, exist_ok=True)
        known = _identity(home)
        if known is not None and known.name != code.site:
            raise Mistake("code", f"is for the site {code.site}, and this home is the site {known.name}'s")
        if known is not None and _read(home.link / JOINED) == code.name:
            return known
        request = _request(home, code)
        answer = door.join(code=code.name, request=request, proof=request_proof(code.key, request))
        _check(answer, request, code)
        with closing(Audit(home.folder / AUDIT)) as audit:
            authority = sha256(answer["authority"].encode()).hexdigest()
            audit.note(("joined", {"site": code.site, "authority": authority}))
        place = home.folder / FOLDER
        private_files.write(place / JOINED, code.name)
        private_files.write(place / AUTHORITY, answer["authority"])
        private_files.write(place / CERTIFICATE, answer["certificate"])  # from here on it is to be settled
        settle(place)
        settled(home)
        found = _identity(home)
        assert found is not None  # noqa: S101
        return found


def resume(home: SiteHome) -> None:
    """Finish what was begun, unless somebody joins just now, who does."""
    with suppress(HomeInUse), closing(home.hold_joining()):
        settled(home)


def settled(home: SiteHome) -> None:
    """Finish what an answered request began: all of it goes to `link/`, the certificate last."""
    place = home.folder / FOLDER
    if not (place / CERTIFICATE).exists():
        return
    home.link.mkdir(mode=0o700, exist_ok=True)
    for name in (AUTHORITY, KEY, JOINED, CERTIFICATE):
        with suppress(FileNotFoundError):  # it went before the crash
            os.replace(place / name, home.link / name)
            settle(home.link)
    (place / REQUEST).unlink(missing_ok=True)
    for left in place.iterdir():
        left.unlink()
    place.rmdir()
    settle(home.folder)


def _request(home: SiteHome, code: JoinCode) -> str:
    """The request for a key of this home: the one that was begun for this code, else a new one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    place = home.folder / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    if _read(place / JOINED) == code.name and (begun := _read(place / REQUEST)) is not None:
        return begun
    for name in (JOINED, REQUEST):  # of another code, or half of one: its key was never answered
        (place / name).unlink(missing_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, code.site)])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    private_files.write(place / KEY, key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode())
    request = made.public_bytes(pem).decode()
    private_files.write(place / REQUEST, request)
    private_files.write(place / JOINED, code.name)
    settle(place)
    settle(home.folder)
    return request


def _check(answer: dict[str, str], request: str, code: JoinCode) -> None:
    """Raise a Refusal for an answer that the giver of the code did not give to this request."""
    from cryptography import x509

    shown, believed = answer["certificate"], answer["authority"]
    if not equal(answer["proof"], answer_proof(code.key, request, shown, believed)):
        raise Refusal(_FORGED)
    try:
        made = x509.load_pem_x509_certificate(shown.encode())
        authorities = x509.load_pem_x509_certificates(believed.encode())
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        asked = x509.load_pem_x509_csr(request.encode()).public_key()
    except (ValueError, x509.ExtensionNotFound):
        raise Refusal(_FORGED) from None
    sound = code.names(believed) and any(issued(made, by=each) for each in authorities)
    if not sound or made.public_key() != asked or uris != [certificate.URI + code.site]:
        raise Refusal(_FORGED)


def _identity(home: SiteHome) -> certificate.SiteIdentity | None:
    """The identity in `link/`, also where it has ended; None where there is none."""
    folder = os.open(home.link, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return certificate.read(folder, now=datetime.min.replace(tzinfo=UTC))
    except Refusal:
        return None
    finally:
        os.close(folder)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None

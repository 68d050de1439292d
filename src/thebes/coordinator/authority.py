"""The authority of a coordinator: it certifies the sites that may take part, and the port they come to.

What must stay true: the authority's key and every key it makes are files of their own that only their owner reads; a
certificate counts only while it stands in the register and was not revoked; what changed in the folder counts at once,
without a restart.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import re
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from thebes.coordinator.clock import Clock
from thebes.privacy.faults import Mistake
from thebes.tasks.sites import LOCAL, SITE_NAME
from thebes.wire.link import SERVER_NAME
from thebes.wire.refusals import NotFound

FOLDER = "ca"
SITE_URI = "thebes://site/"
DAYS, MOST_DAYS = 30, 366
_AUTHORITY_DAYS = 3650
_HUB_DAYS = 30
_RENEWED_BEFORE = timedelta(days=10)
_SKEW = timedelta(minutes=5)  #: by so much another machine's clock may be behind

#: any of these differs after a change
Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A site's certificate as the register has it."""

    serial: int
    site: str
    issued: datetime
    ends: datetime
    revoked: datetime | None

    def fault(self, now: datetime) -> tuple[str, str] | None:
        """(word, sentence) why it does not count; None while it does."""
        if self.revoked is not None:
            return "revoked", f"the certificate of the site {self.site} was revoked; ask the coordinator's operator"
        if now >= self.ends:
            return "expired", f"the certificate of the site {self.site} has ended; ask for a new one (thebes ca issue)"
        return None

    def state(self, now: datetime) -> str:
        fault = self.fault(now)
        return "valid" if fault is None else fault[0]


@dataclass(frozen=True, slots=True)
class HubIdentity:
    """What the port for sites shows and believes, as PEM."""

    key: bytes
    certificate: bytes
    authority: bytes


class Authority:
    """The folder `HOME/ca`; made whole when it is first used."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self.folder = home.absolute() / FOLDER
        self._clock = clock
        self._read: tuple[Stamp, dict[int, Certificate]] | None = None
        if self.folder.exists() and self.folder.stat().st_uid != os.geteuid():
            raise Mistake("--home", f"{self.folder} belongs to another user")

    @property
    def exists(self) -> bool:
        return (self.folder / "authority.pem").exists()

    def init(self) -> bool:
        """Make the authority where there is none; whether it was made now."""
        with self._alone():
            if self.exists:
                return False
            now = self._clock.now()
            key = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Thebes sites")])
            public = key.public_key()
            built = (
                _unsigned(name, name, public, now, now + timedelta(days=_AUTHORITY_DAYS))
                .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
                .add_extension(_usage(signs=True), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            )
            self._put("authority.key", _key_pem(key), secret=True)
            self._put("authority.pem", _pem(built.sign(key, hashes.SHA256())))
            return True

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the authority's certificate, in hex."""
        return self._certificate("authority.pem").fingerprint(hashes.SHA256()).hex()

    # --- sites ------------------------------------------------------------------------------------------

    def issue(self, site: str, into: Path, *, days: int = DAYS) -> Certificate:
        """A new key and certificate of a site, put into its home. Those it had go on counting until they end."""
        if not re.fullmatch(SITE_NAME, site):
            raise Mistake("NAME", "must be lower-case letters, digits, dots, underscores or hyphens, at most 63")
        if site == LOCAL:
            raise Mistake("NAME", f"{LOCAL!r} is the coordinator's own site, which needs no certificate")
        if not 1 <= days <= MOST_DAYS:
            raise Mistake("--days", f"must be between 1 and {MOST_DAYS}")
        self.init()
        now = self._clock.now().replace(microsecond=0)
        ends = min(now + timedelta(days=days), self._certificate("authority.pem").not_valid_after_utc)
        key = ec.generate_private_key(ec.SECP256R1())
        uri = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(SITE_URI + site)])
        made = self._signed(site, key, now, ends, uri, ExtendedKeyUsageOID.CLIENT_AUTH)
        issued = Certificate(made.serial_number, site, now, ends, None)
        with self._alone():
            # Into the register first: a certificate that exists and is not known would be refused.
            self._write_register({**self.certificates(), issued.serial: issued})
            link = into.absolute() / "link"
            into.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.mkdir(mode=0o700, exist_ok=True)
            link.chmod(0o700)
            _write(link / "site.key", _key_pem(key), 0o600)
            _write(link / "site.pem", _pem(made), 0o644)
            _write(link / "ca.pem", (self.folder / "authority.pem").read_bytes(), 0o644)
        return issued

    def revoke(self, site: str) -> int:
        """Every certificate of the site that still counts counts no longer; how many those were."""
        with self._alone():
            known, now = self.certificates(), self._clock.now().replace(microsecond=0)
            if not any(each.site == site for each in known.values()):
                raise NotFound(f"no certificate was issued to a site {site[:63]!r}; see thebes ca list")
            counted = [each for each in known.values() if each.site == site and each.fault(now) is None]
            for each in counted:
                known[each.serial] = Certificate(each.serial, each.site, each.issued, each.ends, now)
            self._write_register(known)
            return len(counted)

    def certificates(self) -> dict[int, Certificate]:
        """Every certificate that was issued to a site, by serial number."""
        stamp = _stamp(self.folder / "register.json")
        if self._read is None or self._read[0] != stamp:
            self._read = (stamp, self._read_register())
        return dict(self._read[1])

    def sites(self) -> dict[str, bool]:
        """Every site that was ever issued a certificate, and whether one counts."""
        now, found = self._clock.now(), dict[str, bool]()
        for each in self.certificates().values():
            found[each.site] = found.get(each.site, False) or each.fault(now) is None
        return found

    def ends(self, site: str) -> datetime | None:
        """When the last of a site's certificates that were not revoked ends; None where it has none."""
        own = [each.ends for each in self.certificates().values() if each.site == site and each.revoked is None]
        return max(own, default=None)

    def revoked(self, site: str) -> bool:
        """Whether a site that had a certificate may not come any more, because it was taken from it."""
        now = self._clock.now()
        own = [each for each in self.certificates().values() if each.site == site]
        return any(each.revoked for each in own) and all(each.fault(now) for each in own)

    def fault(self, certificate: Certificate) -> tuple[str, str] | None:
        """(word, sentence) why it does not count at this moment; None while it does."""
        return certificate.fault(self._clock.now())

    def examine(self, pem: bytes) -> Certificate | tuple[str, str]:
        """The certificate a site shows, or (word, sentence) why it does not count. TLS has verified the signature."""
        try:
            shown = x509.load_pem_x509_certificate(pem)
            names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (ValueError, x509.ExtensionNotFound):
            return "unknown", "the certificate is not a site's"
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        known = self.certificates().get(shown.serial_number)
        if len(uris) != 1 or not uris[0].startswith(SITE_URI):
            return "unknown", "the certificate is not a site's"
        if known is None or uris[0] != SITE_URI + known.site:
            return "unknown", "the certificate is not one that this coordinator issued (thebes ca issue)"
        return self.fault(known) or known

    # --- the port for sites -----------------------------------------------------------------------------

    def hub(self, hosts: Sequence[str]) -> HubIdentity:
        """The identity of the port under these names; renewed where it ends soon or does not have them all."""
        self.init()
        names = _names(hosts)
        with self._alone():
            if not self._serves(names):
                key = ec.generate_private_key(ec.SECP256R1())
                now = self._clock.now().replace(microsecond=0)
                alternative = x509.SubjectAlternativeName(names)
                usage = ExtendedKeyUsageOID.SERVER_AUTH
                made = self._signed("coordinator", key, now, now + timedelta(days=_HUB_DAYS), alternative, usage)
                self._put("hub.pem", _pem(made) + _key_pem(key), secret=True)  # one file: both change in one moment
            both = (self.folder / "hub.pem").read_bytes()
            return HubIdentity(both, both, (self.folder / "authority.pem").read_bytes())

    def stamp(self) -> Stamp:
        """Differs when the authority or the port's own certificate was changed."""
        return _stamp(self.folder / "authority.pem", self.folder / "hub.pem")

    def _serves(self, names: Sequence[x509.GeneralName]) -> bool:
        try:
            shown = self._certificate("hub.pem")
        except (OSError, ValueError):
            return False
        has = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        soon = self._clock.now() + _RENEWED_BEFORE
        same_authority = shown.issuer == self._certificate("authority.pem").subject
        try:
            shown.verify_directly_issued_by(self._certificate("authority.pem"))
        except Exception:
            same_authority = False
        return same_authority and soon < shown.not_valid_after_utc and set(names) <= set(has)

    # --- the folder -------------------------------------------------------------------------------------

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        now: datetime,
        ends: datetime,
        alternative: x509.SubjectAlternativeName,
        usage: x509.ObjectIdentifier,
    ) -> x509.Certificate:
        authority = self._certificate("authority.pem")
        signing = serialization.load_pem_private_key((self.folder / "authority.key").read_bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)  # noqa: S101
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            _unsigned(subject, authority.subject, key.public_key(), now, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(alternative, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
            .sign(signing, hashes.SHA256())
        )

    def _certificate(self, name: str) -> x509.Certificate:
        return x509.load_pem_x509_certificate((self.folder / name).read_bytes())

    def _read_register(self) -> dict[int, Certificate]:
        try:
            told = json.loads((self.folder / "register.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {
            int(serial, 16): Certificate(
                int(serial, 16),
                each["site"],
                datetime.fromisoformat(each["issued"]),
                datetime.fromisoformat(each["ends"]),
                None if each["revoked"] is None else datetime.fromisoformat(each["revoked"]),
            )
            for serial, each in told.items()
        }

    def _write_register(self, certificates: dict[int, Certificate]) -> None:
        told = {
            f"{serial:x}": {
                "site": each.site,
                "issued": each.issued.isoformat(),
                "ends": each.ends.isoformat(),
                "revoked": None if each.revoked is None else each.revoked.isoformat(),
            }
            for serial, each in certificates.items()
        }
        self._put("register.json", json.dumps(told, indent=1).encode() + b"\n")

    def _put(self, name: str, content: bytes, *, secret: bool = False) -> None:
        _write(self.folder / name, content, 0o600 if secret else 0o644)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time changes the folder."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(ends)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """Where the port may be reached, and the one name that a site can insist on wherever it is."""
    wanted = dict.fromkeys([SERVER_NAME, "localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts])
    found: list[x509.GeneralName] = []
    for host in wanted:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if host.isascii() and 0 < len(host) <= 253:
                found.append(x509.DNSName(host))
    return found


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(file: Path, content: bytes, mode: int) -> None:
    """Whole or not at all; nobody else reads it before it has its mode."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # 0600
    try:
        os.write(descriptor, content)
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
        os.close(descriptor)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise


def _stamp(*files: Path) -> Stamp:
    found = []
    for file in files:
        try:
            facts = file.stat()
            found.append((facts.st_mtime_ns, facts.st_ino))
        except FileNotFoundError:
            found.append((0, 0))
    return tuple(found)


def as_json(certificate: Certificate, now: datetime) -> dict[str, Any]:
    """A certificate as `thebes ca list` tells it."""
    return {
        "site": certificate.site,
        "serial": f"{certificate.serial:x}",
        "issued": certificate.issued.astimezone(UTC).isoformat(),
        "ends": certificate.ends.astimezone(UTC).isoformat(),
        "state": certificate.state(now),
    }

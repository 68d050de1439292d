"""The authority of a coordinator: it certifies the sites that may take part, and the port they come to.

What must stay true: the authority's keys and every key it makes are files of their own that only their owner reads; a
certificate counts only while it stands in the register, was not revoked, and is signed by whom the register says; what
changed in the folder counts at once, without a restart.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from thebes import machine
from thebes.coordinator.auth.hardware_key import HardwareKeyAway
from thebes.coordinator.auth.signers import FIRST, Signer, signers
from thebes.coordinator.auth.site_certificates import DAYS, SiteCertificate, check_site, few
from thebes.coordinator.clock import Clock
from thebes.database.folder_sync import settle
from thebes.database.private_files import alone, put, stamp, write
from thebes.privacy.faults import Mistake, Refusal
from thebes.wire.link import SERVER_NAME
from thebes.wire.refusals import NotFound

FOLDER = "ca"
SITE_URI = "thebes://site/"
_HUB_DAYS = 30
_RENEWED_BEFORE = timedelta(days=10)


@dataclass(frozen=True, slots=True)
class HubIdentity:
    """The key and the certificates that the port for sites shows and believes, as PEM."""

    key: bytes
    certificate: bytes
    authority: bytes


class CertificateAuthority:
    """The folder `HOME/ca`; made whole when it is first used.

    While another authority takes the place of the one before, sites that have a certificate of either are let in: the
    older signs what the port shows, which both kinds of site believe, and the newer signs for sites.
    """

    def __init__(self, home: Path, clock: Clock) -> None:
        self.folder = home.absolute() / FOLDER
        self._clock = clock
        self._read: tuple[tuple[int, int], dict[int, SiteCertificate]] | None = None
        if self.folder.exists() and self.folder.stat().st_uid != machine.user():
            raise Mistake("--home", f"{self.folder} belongs to another user")

    @property
    def exists(self) -> bool:
        return bool(self.signers())

    def signers(self) -> list[Signer]:
        """Those that count, oldest first: one, or two while another takes its place."""
        return signers(self.folder)

    def init(self, place: str | None = None) -> bool:
        """Make the authority where there is none, with its key in the token that a URI names, if one does; whether it
        was made now."""
        with self._alone():
            if self.exists:
                return False
            self._begin(FIRST, place)
            return True

    def rotate(self, place: str | None = None) -> bool:
        """Begin another authority: it counts beside the one that there is, which goes on until it is ended. Its key is
        made as by `init`. False where two count already."""
        with self._alone():
            *old, newest = self._there()
            if old:
                return False
            self._begin(newest.number + 1, place)
            return True

    def behind(self) -> list[str]:
        """The sites that are let in by the old authority, and have not yet come with a certificate of the newest: they
        would be shut out if the old one ended."""
        *old, newest = [each.number for each in self.signers()] or [FIRST]
        counted = [each for each in self.certificates().values() if self.fault(each) is None]
        ahead = {each.site for each in counted if each.signer == newest and each.came is not None}
        return sorted({each.site for each in counted if each.signer in old} - ahead)

    def end_old(self, *, anyway: bool = False, tell: Callable[[str], object] | None = None) -> bool:
        """Only the newest authority counts from now on; the keys of those before it are deleted. False where there
        was no other. Refused while a site would be shut out or a key's token is away, unless `anyway`: what such a
        token keeps, is told to `tell`."""
        with self._alone():
            *old, newest = self._there()
            behind = self.behind()
            if behind and not anyway:
                raise Refusal(
                    f"{few(behind)} would be shut out: bring each a new link/ (thebes ca issue NAME), and wait until it"
                    " has come with that (thebes ca list), or end the old authority --anyway"
                )
            if old:
                # First of all nobody is let in by it: killed after this, the same again does the rest.
                known, now = self.certificates(), self._clock.now().replace(microsecond=0)
                over = [each for each in known.values() if each.signer != newest.number]
                ended = {each.serial: replace(each, ends=min(each.ends, now)) for each in over}
                self._write_register({**known, **ended})
            for each in old:
                if (lies := each.place) is not None:
                    try:
                        lies.destroy()
                    except HardwareKeyAway as away:
                        if not anyway:
                            raise HardwareKeyAway(f"{away}; end the old authority --anyway if it stays away") from None
                        if tell is not None:
                            tell(f"{away}: destroy its key {lies.label!r} there yourself")
                each.certificate_file.unlink()
                settle(self.folder)
            for left in self.folder.glob("authority*.key"):
                if left != newest.key_file:
                    left.unlink()
            settle(self.folder)
            return bool(old)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the newest authority's certificate, in hex."""
        return self.signers()[-1].certificate.fingerprint(hashes.SHA256()).hex()

    # --- sites ------------------------------------------------------------------------------------------

    def issue(self, site: str, into: Path, *, days: int = DAYS) -> SiteCertificate:
        """A new key and certificate of a site, put into its home. Those it had go on counting until they end."""
        check_site(site, days)
        self.init()
        with self._alone():
            newest, now, ends = self._term(days)
            made = newest.issue(site, now, ends, _site_name(site), ExtendedKeyUsageOID.CLIENT_AUTH)
            issued = SiteCertificate(made.serial, site, now, ends, signer=newest.number)
            # Into the register first: a certificate that exists and is not known would be refused.
            self._write_register({**self.certificates(), issued.serial: issued})
            link = into.absolute() / "link"
            into.mkdir(mode=0o700, parents=True, exist_ok=True)
            link.mkdir(mode=0o700, exist_ok=True)
            link.chmod(0o700)
            write(link / "site.key", made.key)
            write(link / "site.pem", made.certificate)
            write(link / "ca.pem", self.believed())
        return issued

    def certify(self, site: str, public: ec.EllipticCurvePublicKey, *, days: int) -> tuple[SiteCertificate, bytes]:
        """A certificate of a key that stays at the site, as PEM. It counts once it is entered into the register."""
        check_site(site, days)
        newest, now, ends = self._term(days)
        made = newest.certify(public, site, now, ends, _site_name(site), ExtendedKeyUsageOID.CLIENT_AUTH)
        issued = SiteCertificate(made.serial_number, site, now, ends, signer=newest.number)
        return issued, made.public_bytes(serialization.Encoding.PEM)

    def enter(self, issued: SiteCertificate) -> None:
        """Let a certificate count. One that is known already stays as it is, revoked where it was."""
        with self._alone():
            self._write_register({issued.serial: issued, **self.certificates()})

    def _term(self, days: int) -> tuple[Signer, datetime, datetime]:
        """The signer of now, from when on, and until when."""
        newest, now = self.signers()[-1], self._clock.now().replace(microsecond=0)
        return newest, now, min(now + timedelta(days=days), newest.certificate.not_valid_after_utc)

    def revoke(self, site: str) -> int:
        """Every certificate of the site that still counts counts no longer; how many those were."""
        with self._alone():
            known, now = self.certificates(), self._clock.now().replace(microsecond=0)
            if not any(each.site == site for each in known.values()):
                raise NotFound(f"no certificate was issued to a site {site[:63]!r}; see thebes ca list")
            counted = [each for each in known.values() if each.site == site and each.fault(now) is None]
            for each in counted:
                known[each.serial] = replace(each, revoked=now)
            self._write_register(known)
            return len(counted)

    def came(self, serial: int) -> None:
        """Remember that the site has come with this certificate: it has got what was issued to it."""
        with self._alone():
            known = self.certificates()
            each = known.get(serial)
            if each is not None and each.came is None:
                now = self._clock.now().replace(microsecond=0)
                self._write_register({**known, serial: replace(each, came=now)})

    def certificates(self) -> dict[int, SiteCertificate]:
        """Every certificate that was issued to a site, by serial number."""
        now = stamp(self.folder / "register.json")
        if self._read is None or self._read[0] != now:
            self._read = (now, self._read_register())
        return dict(self._read[1])

    def sites(self) -> dict[str, bool]:
        """Every site that was ever issued a certificate, and whether one counts."""
        now, found = self._clock.now(), dict[str, bool]()
        for each in self.certificates().values():
            found[each.site] = found.get(each.site, False) or each.fault(now) is None
        return found

    def ends(self, site: str) -> datetime | None:
        """Return when the last of a site's certificates that were not revoked ends; None where it has none."""
        own = [each.ends for each in self.certificates().values() if each.site == site and each.revoked is None]
        return max(own, default=None)

    def revoked(self, site: str) -> bool:
        """Return whether a site that had a certificate may not come any more, because it was taken from it."""
        now = self._clock.now()
        own = [each for each in self.certificates().values() if each.site == site]
        return any(each.revoked for each in own) and all(each.fault(now) for each in own)

    def fault(self, certificate: SiteCertificate) -> tuple[str, str] | None:
        """(word, sentence) why it does not count at this moment; None while it does."""
        return certificate.fault(self._clock.now())

    def examine(self, pem: bytes) -> SiteCertificate | tuple[str, str]:
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
        fault = self.fault(known)
        # Whoever else could sign might take a serial number that is known.
        if fault is None and not Signer(self.folder, known.signer).issued(shown):
            fault = "unknown", "the certificate is not signed by the authority that issued the one of this number"
        return fault or known

    # --- the port for sites -----------------------------------------------------------------------------

    def hub(self, hosts: Sequence[str]) -> HubIdentity:
        """The identity of the port under these names; renewed where it ends soon or does not have them all."""
        self.init()
        names = _names(hosts)
        with self._alone():
            oldest = self.signers()[0]
            if not self._serves(oldest, names):
                now = self._clock.now().replace(microsecond=0)
                alternative = x509.SubjectAlternativeName(names)
                ends = now + timedelta(days=_HUB_DAYS)
                made = oldest.issue("coordinator", now, ends, alternative, ExtendedKeyUsageOID.SERVER_AUTH)
                self._put("hub.pem", made.certificate + made.key)  # one file: both change in one moment
            both = (self.folder / "hub.pem").read_bytes()
            return HubIdentity(both, both, self.believed())

    def _serves(self, signer: Signer, names: Sequence[x509.GeneralName]) -> bool:
        try:
            shown = x509.load_pem_x509_certificate((self.folder / "hub.pem").read_bytes())
        except (OSError, ValueError):
            return False
        has = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        soon = self._clock.now() + _RENEWED_BEFORE
        return signer.issued(shown) and soon < shown.not_valid_after_utc and set(names) <= set(has)

    def believed(self) -> bytes:
        """The certificates of all that count, newest first: what a site is to believe."""
        return b"".join(each.pem for each in reversed(self.signers()))

    # --- the folder -------------------------------------------------------------------------------------

    def _there(self) -> list[Signer]:
        there = self.signers()
        if not there:
            raise Mistake("--home", "has no authority for sites yet; thebes ca init makes one")
        return there

    def _begin(self, number: int, place: str | None) -> None:
        """The key first: from the moment that its certificate is there a signer counts."""
        signer = Signer(self.folder, number)
        made = signer.made(self._clock.now(), place)
        self._put(signer.key_file.name, made.key)
        self._put(signer.certificate_file.name, made.certificate)

    def _read_register(self) -> dict[int, SiteCertificate]:
        try:
            told = json.loads((self.folder / "register.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return {int(serial, 16): SiteCertificate.entered(int(serial, 16), each) for serial, each in told.items()}

    def _write_register(self, certificates: dict[int, SiteCertificate]) -> None:
        told = {f"{serial:x}": each.entry for serial, each in certificates.items()}
        self._put("register.json", json.dumps(told, indent=1).encode() + b"\n")

    def _put(self, name: str, content: bytes) -> None:
        put(self.folder / name, content)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time changes the folder."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        with alone(self.folder / "lock"):
            yield


def _site_name(site: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(SITE_URI + site)])


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """List where the port may be reached, and the one name that a site can insist on wherever it is."""
    wanted = dict.fromkeys([SERVER_NAME, "localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts])
    found: list[x509.GeneralName] = []
    for host in wanted:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            if host.isascii() and 0 < len(host) <= 253:
                found.append(x509.DNSName(host))
    return found

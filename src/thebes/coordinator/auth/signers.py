"""The signers that an authority signs with: one key and its certificate, or two while another takes the place of the
one before. A key lies in a file, or in a PKCS#11 token of which its file says where it is.

What must stay true: a signer counts from the moment its certificate is there, when its key is there already, until its
certificate has gone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from thebes.coordinator.auth.hardware_key import SCHEME, HardwareKey, KeyPlace
from thebes.wire.certificates import issued

FIRST = 1
_DAYS = 3650
_SKEW = timedelta(minutes=5)  #: by so much another machine's clock may be behind
_CERTIFICATE = re.compile(r"authority(?:-([2-9]|[1-9]\d+))?\.pem")


@dataclass(frozen=True, slots=True)
class Pair:
    """A new key and its certificate, as PEM."""

    key: bytes
    certificate: bytes
    serial: int


@dataclass(frozen=True, slots=True)
class Signer:
    """The one with this number, of files `authority.pem` and `authority.key`, from the second on `authority-2.pem`."""

    folder: Path
    number: int

    @property
    def certificate_file(self) -> Path:
        return self.folder / f"{self._name}.pem"

    @property
    def key_file(self) -> Path:
        return self.folder / f"{self._name}.key"

    @property
    def pem(self) -> bytes:
        return self.certificate_file.read_bytes()

    @property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.pem)

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """The key; a ValueError where its file holds none, an OSError where there is no file."""
        return key_of(self.key_file)

    @property
    def place(self) -> KeyPlace | None:
        """The place in a token where the key lies; None of one in a file."""
        text = self.key_file.read_bytes()
        return KeyPlace.read(text.decode()) if text.startswith(SCHEME.encode()) else None

    def made(self, now: datetime, place: str | None = None) -> Pair:
        """A key, and a certificate by which it signs others; in the token that a URI names, if one does."""
        key = ec.generate_private_key(ec.SECP256R1()) if place is None else KeyPlace.read(place).make()
        # Each number has a name of its own: no certificate names two that could have issued it.
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Thebes sites {self.number}")])
        public = key.public_key()
        made = (
            _unsigned(name, name, public, now, now + timedelta(days=_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        return _pair(key, made, kept=place)

    def issue(
        self,
        name: str,
        now: datetime,
        ends: datetime,
        alternative: x509.SubjectAlternativeName,
        usage: x509.ObjectIdentifier,
    ) -> Pair:
        """A key, and a certificate of it that signs nothing."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self.certify(key.public_key(), name, now, ends, alternative, usage)
        return _pair(key, made)

    def certify(
        self,
        public: ec.EllipticCurvePublicKey,
        name: str,
        now: datetime,
        ends: datetime,
        alternative: x509.SubjectAlternativeName,
        usage: x509.ObjectIdentifier,
    ) -> x509.Certificate:
        """A certificate, which signs nothing, of a key that stays with whoever made it."""
        signing = self.key
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            _unsigned(subject, self.certificate.subject, public, now, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(alternative, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
            .sign(signing, hashes.SHA256())
        )

    def issued(self, shown: x509.Certificate) -> bool:
        """Return whether it is there and signed that certificate."""
        try:
            return issued(shown, by=self.certificate)
        except (OSError, ValueError):  # it is gone, or no certificate
            return False

    @property
    def _name(self) -> str:
        return "authority" if self.number == FIRST else f"authority-{self.number}"


def signers(folder: Path) -> list[Signer]:
    """Those that count, oldest first."""
    if not folder.is_dir():
        return []
    found = (_CERTIFICATE.fullmatch(path.name) for path in folder.iterdir())
    return [Signer(folder, number) for number in sorted(int(each[1] or FIRST) for each in found if each is not None)]


def key_of(file: Path) -> ec.EllipticCurvePrivateKey:
    """Return the key that a file holds, or says where it is; a ValueError where it does neither."""
    text = file.read_bytes()
    if text.startswith(SCHEME.encode()):
        return HardwareKey(KeyPlace.read(text.decode()))
    key = serialization.load_pem_private_key(text, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("a key of another kind")
    return key


def _pair(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, *, kept: str | None = None) -> Pair:
    """`kept` is what is kept of the key instead of itself: where in a token it lies."""
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, pkcs8, serialization.NoEncryption()) if kept is None else kept.encode() + b"\n"
    return Pair(private, certificate.public_bytes(pem), certificate.serial_number)


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

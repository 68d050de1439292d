"""A key of the authority that lies in a PKCS#11 token, such as a hardware security module or a smart card.

What must stay true: the key is made in the token and cannot be read out of it; what lies in the home says where it is
(RFC 7512) and holds no PIN.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from thebes.privacy.faults import Mistake, Refusal

SCHEME = "pkcs11:"
_FORM = "pkcs11:token=LABEL;object=LABEL?module-path=/path/to/module.so&pin-source=/path/to/pin"
_INSIDE = "the key lies in a token and is not read out of it"
_CURVE = ec.SECP256R1()


class HardwareKeyAway(Refusal):
    """The token with the authority's key cannot be used just now; nothing was signed."""


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """The place of a key in a token, as a URI names it. The PIN is the first line of a file."""

    token: str
    label: str
    module: str
    pin_file: Path

    @classmethod
    def read(cls, uri: str) -> KeyPlace:
        """Read a URI of the form that the errors name; a Mistake where it is another."""
        path, _, query = uri.strip().removeprefix(SCHEME).partition("?")
        told = [part.partition("=") for part in path.split(";")]
        named = {name: unquote(value) for name, _, value in told} | dict(parse_qsl(query, keep_blank_values=True))
        if "pin-value" in named:
            raise Mistake("--key", "must not hold the PIN itself: put it into a file and name that as pin-source")
        wanted = {"token", "object", "module-path", "pin-source"}
        if not uri.startswith(SCHEME) or set(named) - {"type"} != wanted or not all(named[name] for name in wanted):
            raise Mistake("--key", f"must be {_FORM}")
        pin_file = Path(named["pin-source"].removeprefix("file:"))
        if not pin_file.is_absolute() or not Path(named["module-path"]).is_absolute():
            raise Mistake("--key", "must name module-path and pin-source from / on")
        return cls(named["token"], named["object"], named["module-path"], pin_file)

    def make(self) -> HardwareKey:
        """Make a new key in the token; a Mistake where one of that name is there already."""
        from pkcs11 import Attribute, KeyType
        from pkcs11.util.ec import encode_named_curve_parameters

        with self._session(rw=True) as session:
            if self._found(session):
                raise Mistake("--key", f"names a key {self.label!r} that is in the token already: give another a name")
            curve = {Attribute.EC_PARAMS: encode_named_curve_parameters("secp256r1")}
            domain = session.create_domain_parameters(KeyType.EC, curve, local=True)
            kept = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False}
            domain.generate_keypair(store=True, label=self.label, private_template=kept)
        return HardwareKey(self)

    def destroy(self) -> None:
        """Destroy the key, where it is there."""
        with self._session(rw=True) as session:
            for each in self._found(session):
                each.destroy()

    def sign(self, digest: bytes) -> bytes:
        """Return the ECDSA signature of a digest, r and s one after the other."""
        from pkcs11 import Mechanism, ObjectClass

        with self._session() as session:
            (key,) = [each for each in self._found(session) if each.object_class is ObjectClass.PRIVATE_KEY] or [None]
            if key is None:
                raise HardwareKeyAway(f"the token {self.token!r} has no key {self.label!r}")
            return bytes(key.sign(digest, mechanism=Mechanism.ECDSA))

    def public_key(self) -> ec.EllipticCurvePublicKey:
        """Return the public half."""
        from pkcs11 import ObjectClass
        from pkcs11.util.ec import encode_ec_public_key

        with self._session() as session:
            found = [each for each in self._found(session) if each.object_class is ObjectClass.PUBLIC_KEY]
            if not found:
                raise HardwareKeyAway(f"the token {self.token!r} has no key {self.label!r}")
            public = serialization.load_der_public_key(encode_ec_public_key(found[0]))
        assert isinstance(public, ec.EllipticCurvePublicKey)  # noqa: S101
        return public

    def _found(self, session: Any) -> list[Any]:
        from pkcs11 import Attribute

        return list(session.get_objects({Attribute.LABEL: self.label}))

    def _pin(self) -> str:
        try:
            with self.pin_file.open(encoding="utf-8") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    told = f"others can read {self.pin_file}, which has the PIN of the token {self.token!r}"
                    raise HardwareKeyAway(f"{told}: change the PIN, and chmod 600 its file")
                return file.read().splitlines()[0]
        except (OSError, UnicodeError, IndexError):
            raise HardwareKeyAway(f"the PIN of the token {self.token!r} cannot be read from its file") from None

    @contextmanager
    def _session(self, *, rw: bool = False) -> Iterator[Any]:
        try:
            import pkcs11
        except ImportError:
            raise Mistake("--key", "needs python-pkcs11 for a token: pip install 'thebes[hsm]'") from None
        pin = self._pin()
        try:
            with pkcs11.lib(self.module).get_token(token_label=self.token).open(rw=rw, user_pin=pin) as session:
                yield session
        except (pkcs11.PKCS11Error, RuntimeError) as error:  # the module cannot be loaded, the token is not there ...
            why = type(error).__name__
            raise HardwareKeyAway(f"the token {self.token!r} cannot be used: {why}") from None


class HardwareKey(ec.EllipticCurvePrivateKey):
    """A key in a token, as whoever builds certificates uses one: it signs, and nothing else."""

    def __init__(self, place: KeyPlace) -> None:
        self._place = place

    @property
    def curve(self) -> ec.EllipticCurve:
        return _CURVE

    @property
    def key_size(self) -> int:
        return _CURVE.key_size

    def public_key(self) -> ec.EllipticCurvePublicKey:
        return self._place.public_key()

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        digest = hashes.Hash(hashes.SHA256())
        digest.update(bytes(data))
        signed = self._place.sign(digest.finalize())
        half = len(signed) // 2
        parts = (int.from_bytes(signed[:half], "big"), int.from_bytes(signed[half:], "big"))
        return utils.encode_dss_signature(*parts)

    def exchange(self, algorithm: ec.ECDH, peer_public_key: ec.EllipticCurvePublicKey) -> NoReturn:
        raise TypeError(_INSIDE)

    def private_numbers(self) -> NoReturn:
        raise TypeError(_INSIDE)

    def private_bytes(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(_INSIDE)

    def __copy__(self) -> HardwareKey:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> HardwareKey:
        return self

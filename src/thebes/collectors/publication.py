"""A collector's publication: what it is and the digests of its files, signed by whoever publishes it.

What must stay true: nothing of a package is imported before its publication was verified; every file of the package is
in the signature. What a signature cannot say: that the program does no harm. It names whose word that is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from thebes.data.store.declaration import Declaration, collector_name, read_declaration
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.reading import read_json

FILE = "publication.json"
MOST_FILES, MOST_BYTES, LARGEST_PUBLICATION = 5_000, 2**28, 2**22
_CONTEXT = b"thebes collector publication 1\n"
_FIELDS = {"name", "version", "entry", "description", "tables", "files"}


class Unverified(Refusal):
    """A publication is missing, altered, or not by whom it was before. Its program was not run."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The publication that was signed. `key` is the publisher's, 64 hexadecimal digits; `tables` is empty where options
    decide them."""

    name: str
    version: int
    entry: str
    description: str
    tables: Mapping[str, Any]
    files: Mapping[str, str]
    key: str

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)


def fingerprint(key: str) -> str:
    """A key in a form that people can compare: the start of its digest, in groups of four."""
    found = hashlib.sha256(bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(found[start : start + 4] for start in range(0, 32, 4))


def make_key(path: Path) -> None:
    """A new publisher's key, in a file that only its owner reads; an existing file is never replaced."""
    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise Mistake("--new-key", f"{str(path)!r} exists already; leave --new-key out to use it") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)


def read_key(path: Path) -> Ed25519PrivateKey:
    """The publisher's key in a file, which nobody else may be able to read."""
    try:
        facts = path.stat()
        text = path.read_bytes() if stat.S_ISREG(facts.st_mode) and facts.st_size < 10_000 else b""
    except OSError:
        raise Mistake("--key", f"{str(path)!r} cannot be read; make one with --new-key") from None
    if facts.st_mode & 0o077:
        raise Mistake("--key", f"{str(path)!r} can be read by others; chmod 600 it")
    key: object = None
    with suppress(ValueError, TypeError):
        key = serialization.load_pem_private_key(text, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise Mistake("--key", f"{str(path)!r} is not an Ed25519 key in PEM without a passphrase")
    return key


def sign(
    folder: Path,
    key: Ed25519PrivateKey,
    *,
    name: str,
    version: int,
    entry: str,
    description: str,
    declared: Declaration,
) -> Path:
    """Writes the publication of a package into its folder."""
    body: dict[str, Any] = {
        "name": name,
        "version": version,
        "entry": entry,
        "description": description,
        "tables": declared.plain(),
        "files": _digests(folder),
    }
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    signed = {"publication": body, "key": public.hex(), "signature": key.sign(_CONTEXT + rfc8785.dumps(body)).hex()}
    path = folder / FILE
    path.write_text(json.dumps(signed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read_publication(path: Path) -> Publication:
    """Read what a publication says and verify its signature. The files it speaks of are not looked at."""
    try:
        text = path.read_bytes() if path.stat().st_size <= LARGEST_PUBLICATION else b""
        signed = read_json(text)
        body, key, signature = (signed[name] for name in ("publication", "key", "signature"))
        if len(signed) != 3 or set(body) != _FIELDS or not re.fullmatch(r"[0-9a-f]{64}", key):
            raise ValueError
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), _CONTEXT + rfc8785.dumps(body)
        )
    except FileNotFoundError:
        raise Unverified(f"there is no {path.name}: the package is not signed") from None
    except InvalidSignature:
        raise Unverified(f"the signature of {path.name} does not match: it was altered") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unverified(f"{path.name} cannot be read as a publication") from None
    try:
        collector_name(body["name"])
        if body["tables"]:
            read_declaration({"tables": body["tables"]})
        texts = [body["entry"], body["description"], *body["files"], *body["files"].values()]
        if not all(isinstance(text, str) for text in texts) or type(body["version"]) is not int:
            raise TypeError
    except (Mistake, TypeError, AttributeError, ValueError):
        raise Unverified(f"{path.name} was signed but does not make sense; ask its publisher") from None
    return Publication(**body, key=key)


def verify(folder: Path) -> Publication:
    """The publication of an installed package, if every file of the package is as it was signed."""
    told = read_publication(folder / FILE)
    found = _digests(folder)
    for name in sorted({*told.files, *found}):
        if told.files.get(name) != found.get(name):
            what = "is missing" if name not in found else "was added" if name not in told.files else "was altered"
            raise Unverified(f"{name!r} {what} since the package was signed")
    return told


def _digests(folder: Path) -> dict[str, str]:
    """{path inside the package: SHA-256}. Compiled copies in `__pycache__` are left out; they are not used either."""
    found: dict[str, str] = {}
    total = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        for name in [*names, *(f for f in folders if (Path(place) / f).is_symlink())]:
            path = Path(place) / name
            if path == folder / FILE:
                continue
            facts = path.lstat()
            total += facts.st_size
            if not stat.S_ISREG(facts.st_mode):
                raise Unverified(f"{name!r} is not a plain file, so no signature can speak for it")
            if len(found) >= MOST_FILES or total > MOST_BYTES:
                raise Unverified("the package is too large to be verified")
            found[path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found

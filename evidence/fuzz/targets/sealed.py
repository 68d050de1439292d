"""A sealed copy as `thebes restore` reads it: `s` and the file, to somebody who has the passphrase, or `o` and what
somebody sealed who has it, too.

What must stay true: of a file that was changed nothing is given that was not sealed. The key is made at once here, not
by argon2, whose cost no file chooses, and a chunk is short, so that there are many.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from thebes.cli.homes import archive, sealed_file
from thebes.privacy.faults import Mistake, Refusal
from thebes.wire.homes import HomeRole

PASSPHRASE = "a passphrase for nothing but this"
HOME = {"policy.toml": b"[[allow]]\n", "cache/long": bytes(range(256))}
_CHUNK = 64


@contextmanager
def quickly() -> Iterator[None]:
    """Sealing and opening without the cost of the key, in chunks of 64 bytes."""

    def cipher(passphrase: str, salt: bytes) -> ChaCha20Poly1305:
        return ChaCha20Poly1305(hashlib.sha256(salt + passphrase.encode()).digest())

    with mock.patch.object(sealed_file, "_cipher", cipher), mock.patch.object(sealed_file, "_CHUNK", _CHUNK):
        yield


def written() -> bytes:
    """A copy of `HOME` that is not sealed."""
    with tempfile.TemporaryDirectory() as scratch:
        stage, file = Path(scratch) / "home", Path(scratch) / "copy"
        for name, content in HOME.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_bytes(content)
        archive.write(stage, file, archive.Copied(HomeRole.SITE, 0.0, "1"), None)
        return file.read_bytes().rstrip(b"\0") + bytes(1024)


def sealed(content: bytes) -> bytes:
    """As a copy is sealed."""
    file = io.BytesIO()
    with quickly():
        writing = sealed_file.Sealing(file, PASSPHRASE)
        writing.write(content)
        writing.close()
    return file.getvalue()


def one(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    if kind not in (b"s", b"o"):
        raise Mistake("data", "begins with no letter that is known here")
    found = _read(rest if kind == b"s" else sealed(rest))
    if kind == b"s":
        assert found == HOME, "a changed copy opened to something else"


def _read(data: bytes) -> dict[str, bytes]:
    descriptor = os.memfd_create("copy")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        with quickly(), archive.opened(Path(f"/proc/self/fd/{descriptor}"), PASSPHRASE) as (_, contents):
            return {name: content.read() for name, content in contents}
    except Refusal as error:
        raise AssertionError("a copy is refused as a mistake") from error
    finally:
        os.close(descriptor)

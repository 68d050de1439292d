"""The form in which requests, responses, tokens and records travel: one spelling each, read strictly."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tokens.refusals import Flaw, Flawed

DIGEST_BYTES = 32
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def write(version: int, core: bytes) -> str:
    """A version byte and what follows it, as base64url without padding."""
    return base64.urlsafe_b64encode(bytes([version]) + core).rstrip(b"=").decode("ascii")


def read(text: object, *, version: int, length: int) -> bytes:
    """The core in `text`, which has exactly this version and length. No two texts give the same core."""
    if not isinstance(text, str):
        raise Flawed(Flaw.TEXT)
    if len(text) > 2 * (length + 1):  # before any work is done on it
        raise Flawed(Flaw.LENGTH)
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise Flawed(Flaw.TEXT) from None
    if not raw:
        raise Flawed(Flaw.LENGTH)
    if write(raw[0], raw[1:]) != text:  # padding, the other alphabet, or bits that no byte holds
        raise Flawed(Flaw.TEXT)
    if raw[0] != version:
        raise Flawed(Flaw.VERSION)
    if len(raw) != length + 1:
        raise Flawed(Flaw.LENGTH)
    return raw[1:]


def digest(label: str, *parts: bytes | str) -> bytes:
    """SHA-256 of a label and parts, each behind its length in eight bytes: no two lists of parts run together."""
    hashed = hashlib.sha256()
    for part in (label, *parts):
        raw = part.encode() if isinstance(part, str) else part
        hashed.update(len(raw).to_bytes(8, "big") + raw)
    return hashed.digest()


def header(group: str, epoch: str) -> bytes:
    """Return what every credential of a group and epoch is signed under; nothing in it differs between peers."""
    return digest("thebes/tokens/header/v1", group, epoch)


def name(argument: str, value: object) -> str:
    """A group or an epoch as it may stand in an address."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise Mistake(argument, "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit")
    return value


def whole(argument: str, value: object, least: int) -> int:
    """A whole number that is not below `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
        raise Mistake(argument, f"must be a whole number of at least {least}")
    return value


def unhex(argument: str, value: object) -> bytes:
    """Bytes from lower-case hexadecimal digits."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise Mistake(argument, "must be lower-case hexadecimal digits")
    return bytes.fromhex(value)


def record(argument: str, value: object, form: str, fields: set[str], *, version: int = 1) -> Mapping[str, Any]:
    """A JSON object that says it is `form` in this version, and has exactly these fields."""
    if not isinstance(value, Mapping) or value.get("format") != form:
        raise Mistake(argument, f"is not a record of the format {form!r}")
    if type(value.get("version")) is not int or value["version"] != version:
        raise Mistake(argument, "has a version that is not known here; update Thebes")
    if set(value) != fields | {"format", "version"}:
        raise Mistake(argument, f"must have exactly the fields {sorted(fields)}")
    return value

"""Addresses of servers, as a caller writes them, and ids as pieces of a path."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from urllib.parse import urlsplit

from thebes.privacy.faults import Mistake

_ONION = re.compile(r"(?:[^.]+\.)*([a-z2-7]{56})\.onion")
_SEGMENT = re.compile(r"[A-Za-z0-9._~-]{1,200}")


def base_url(url: object, *, proxied: bool = False) -> tuple[str, bool]:
    """(the address without a slash at its end, whether what is said there is safe from listeners on the way).

    An onion service is: its name is its key, and Tor encrypts from end to end. Through a proxy, "this machine" is
    somebody else's."""
    if not isinstance(url, str) or any(not c.isprintable() or c.isspace() for c in url):
        raise Mistake("url", "must be an address such as http://127.0.0.1:8000")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Mistake("url", "is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Mistake("url", "must be an address such as http://127.0.0.1:8000")
    if parts.username is not None or parts.query or parts.fragment:
        raise Mistake("url", "must not hold a name, a password, a query or a fragment")
    if parts.hostname.endswith(".onion") and not is_onion(parts.hostname):
        raise Mistake("url", "is not the address of an onion service: a character is missing or another one")
    here = is_loopback(parts.hostname) and not proxied
    return url.rstrip("/"), parts.scheme == "https" or here or is_onion(parts.hostname)


def is_onion(host: str) -> bool:
    """Return whether a host is a Tor onion service (version 3): its key, a checksum and a version, in base 32."""
    found = _ONION.fullmatch(host.lower())
    if found is None:
        return False
    read = base64.b32decode(found[1].upper())
    key, checksum, version = read[:32], read[32:34], read[34:]
    return version == b"\x03" and hashlib.sha3_256(b".onion checksum" + key + version).digest()[:2] == checksum


def is_loopback(host: str) -> bool:
    """Return whether a host name is this machine itself."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def segment(argument: str, value: object) -> str:
    """An id as one piece of a path, or a `Mistake` that names it: nothing in it may lead elsewhere."""
    if not isinstance(value, str) or not _SEGMENT.fullmatch(value) or not value.strip("."):
        raise Mistake(argument, "is not an id: it has other characters than letters, digits, '.', '_', '~' and '-'")
    return value

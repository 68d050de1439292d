"""Addresses of servers that rows come from: over TLS, or of this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from thebes.privacy.faults import Mistake


def web_address(url: str, field: str, example: str) -> str:
    """Return an address as it is, or refuse one that is none, holds a secret, or would be sent one unencrypted."""
    try:
        parts = urlsplit(url)
        plain = parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        plain = False
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname:
        raise Mistake(field, f"must be an address such as {example}")
    if parts.username is not None or parts.query or parts.fragment:
        raise Mistake(field, "must not hold a name, a password, a query or a fragment")
    if parts.scheme == "http" and not on_this_machine(url):
        raise Mistake(field, "must begin with https://, for what is sent there is secret")
    return url


def on_this_machine(url: str) -> bool:
    """Return whether an address that was found good is one of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""The headers in which every answer of a server of Thebes tells a browser: load nothing from elsewhere, be framed by
nobody, keep nothing, guess nothing, send no form by itself.

What must stay true: what is typed travels in a body that a script of ours makes. A browser that runs no script would
put it, passwords too, into the address, which histories and proxies keep.
"""

from __future__ import annotations

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", POLICY.encode()),
)

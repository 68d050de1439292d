"""The check of who signed a certificate: the one file that asks it."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm


def issued(shown: x509.Certificate, *, by: x509.Certificate) -> bool:
    """Return whether it names `by` as its issuer and bears its signature; what cannot be checked does not."""
    try:
        shown.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True

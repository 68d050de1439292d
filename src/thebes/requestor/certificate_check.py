"""The certificate of a record beside its document: whether what it promises agrees with what was asked."""

from __future__ import annotations

import math
from typing import Any

from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.requestor import mixed_check
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.release_reader import certificate_of, release_from_json
from thebes.wire.refusals import BrokenRecord
from thebes.wire.release_record import ReleaseRecord

_SLACK = 1 + 1e-9  #: prices are rounded up once more than what stands on a certificate


def checked(record: ReleaseRecord) -> list[str]:
    """Return what could not be checked; BrokenRecord where the certificate promises less than the document asks."""
    told = record.release
    try:
        certificate = certificate_of(told["certificate"])
        if record.answer is not None:
            for bar in release_from_json(told).intervals.values():
                _ordered(bar.low, bar.high)
    except (Mistake, LookupError, TypeError, ValueError, AttributeError):
        raise BrokenRecord("what was signed cannot be read here as a release; it may be of another version") from None
    if certificate.simulated:
        raise BrokenRecord(
            "the certificate does not fit: it says that the answer was simulated, and a task has none such"
        )
    try:
        document = registry.accepted_earlier(record.asked)
        price = registry.drawn(document.type).price(document, unit=certificate.unit)
    except (Mistake, KindFailed):
        return ["Its certificate was not held against the document, whose kind cannot be read here."]
    _kept(certificate, document, price.epsilon, price.delta)
    return []


def _kept(certificate: Certificate, document: Document, epsilon: Any, delta: Any) -> None:
    """Hold a certificate against the price of its document, and against the fewest who may be in an answer."""
    if certificate.guarantee == "none":
        if float(epsilon) > 0:
            raise BrokenRecord("the certificate does not fit: it promises nothing, and the document has a price")
        return
    for name, told, most in (("epsilon", certificate.epsilon, epsilon), ("delta", certificate.delta, delta)):
        if not 0 <= told <= float(most) * _SLACK:
            raise BrokenRecord(
                f"the certificate does not fit: its {name} is {figure(told)}, and the document costs at most "
                f"{figure(most)}"
            )
    least = document.min_count if isinstance(document, PeopleDocument) else 0
    if certificate.contributors is not None and certificate.contributors < least:
        raise BrokenRecord("the certificate does not fit: it counts fewer contributors than the document needs")
    if "mixed" in certificate.parameters:
        mixed_check.held(certificate, document)


def _ordered(low: Any, high: Any) -> None:
    ends = zip(low, high, strict=True) if hasattr(low, "__len__") else [(low, high)]
    if any(math.isnan(one) or math.isnan(other) or one > other for one, other in ends):
        raise BrokenRecord("the release does not fit: an interval ends before it begins")

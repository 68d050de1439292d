"""The second promise on a certificate, reckoned again from what it says it rests on.

What must stay true: a figure below what the accountant proves of these numbers is refused, and so is a crowd that the
document or the number of contributors does not allow. Not shown by it: that so many answered, or that they were honest.
Floats of other machines may end a search a step apart, so that a figure may lie 0.2 % below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.document import Document
from thebes.tasks.mixed_document import MixedDocument
from thebes.tasks.mixed_reports import COLLUDING, USUAL_DELTA, MixedCrowd, Supports, figure_among
from thebes.tasks.protocols import Setting
from thebes.wire.refusals import BrokenRecord

_SLACK = 0.002


def held(certificate: Certificate, document: Document) -> None:
    """Return where the second promise follows from what stands beside it; BrokenRecord where it does not."""
    if not isinstance(document, MixedDocument) or certificate.guarantee != "pure":
        _refused("it speaks of mixed answers, and these are not mixed")
    told = MixedTerms.read(certificate.parameters["mixed"])
    mixed = document.mixed
    delta, colluding = (USUAL_DELTA, COLLUDING) if mixed is None else (mixed.delta, mixed.colluding)
    if told.against == "collector" and document.anonymity != "token":
        _refused("it promises something against those who see the answers, and these could see whose is whose")
    if told.delta > delta:
        _refused(f"its delta is {figure(told.delta)}, and may be at most {figure(delta)}")
    if told.as_accepted and (mixed is None or told.epsilon > mixed.epsilon):
        _refused("nobody accepted what it promises")
    _crowd_fits(told, document, certificate.contributors, colluding)
    try:
        proved = figure_among(
            told.honest,
            document.epsilon,
            delta=told.delta,
            packets=told.parts,
            partitions=told.partitions,
            supports=_supports(document, certificate) if told.mechanism == "its own" else None,
        )
    except Mistake:
        _refused("nothing can be computed from what it rests on")
    if not told.epsilon >= proved * (1 - _SLACK):
        _refused(f"its epsilon is {figure(told.epsilon)}, and what it rests on gives {figure(proved)}")


@dataclass(frozen=True, slots=True)
class MixedTerms:
    """The second promise as it stands on a certificate: what is promised, and on what it rests."""

    epsilon: float
    delta: float
    against: str
    n: int
    honest: int
    parts: int
    partitions: int
    mechanism: str
    as_accepted: bool

    @classmethod
    def read(cls, told: Any) -> MixedTerms:
        """Read what anybody may have written."""
        if not isinstance(told, Mapping):
            _refused("it cannot be read")
        numbers = [told.get(name) for name in ("epsilon", "delta")]
        counts = [told.get(name) for name in ("n", "honest", "parts", "partitions")]
        words = [told.get(name) for name in ("against", "mechanism")]
        if any(isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 < one < 1e9 for one in numbers):
            _refused("it cannot be read")
        if any(isinstance(one, bool) or not isinstance(one, int) or not 1 <= one <= 10**9 for one in counts):
            _refused("it cannot be read")
        if words[0] not in ("collector", "readers") or words[1] not in ("any", "its own"):
            _refused("it cannot be read")
        if not isinstance(told.get("as_accepted"), bool):
            _refused("it cannot be read")
        return cls(**{each.name: told[each.name] for each in fields(cls)})


def _crowd_fits(told: MixedTerms, document: MixedDocument, contributors: int | None, colluding: float) -> None:
    crowds = [document.crowd(phase, told.n) for phase in range(document.phases)]
    if told.parts not in {crowd.packets for crowd in crowds}:
        _refused(f"one person sends another number of packets than {told.parts}")
    if told.partitions > max(crowd.partitions for crowd in crowds):
        _refused(f"the document has fewer partitions than {told.partitions}")
    crowd = MixedCrowd(told.n)
    if contributors is not None:
        if told.n * told.partitions > contributors:
            _refused("it is among more answers than there were contributors")
        crowd = MixedCrowd(contributors, told.partitions, told.parts, told.n)
    if told.honest > (most := crowd.honest(told.delta, colluding)):
        _refused(f"it counts {told.honest} honest answers, and of {told.n} there are {most} at most")


def _supports(document: MixedDocument, certificate: Certificate) -> Supports | None:
    made = registry.aggregator(document, Setting(unit=certificate.unit, randomness=system()))
    return made.supports if isinstance(made, Gathering) else None


def _refused(why: str) -> NoReturn:
    raise BrokenRecord(f"the certificate does not fit, in what it says of mixed answers: {why}")

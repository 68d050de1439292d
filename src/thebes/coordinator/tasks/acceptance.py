"""The acceptance of documents: which may be put up at this coordinator, and what a task begins with.

What must stay true: nothing is put up that could not end, or that its group or its sites could not answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.sites.site_tasks import Convocation, Inquiries, price_at_sites
from thebes.coordinator.storage.store import NewTask
from thebes.coordinator.tasks.phase_end import setting
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks import registry
from thebes.tasks.document import STATED, Document, InvalidDocument, PeopleDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.posting_rules import check_postable
from thebes.tasks.protocols import Aggregator, Endless
from thebes.tasks.site_document import SiteDocument
from thebes.wire.groups import GroupRecord

#: what may be put up: the document, or where institutions answer it the document with those that are asked
Accepted = PeopleDocument | Convocation
_GRACE_SECONDS = 2.0  #: after the deadline of what is trained without end, for what was acknowledged to be written


class Acceptance:
    """Looks at documents before anybody is asked. Everything here may take a while: threads call it."""

    def __init__(self, home: CoordinatorHome, register: ContributorGroups, inquiries: Inquiries, clock: Clock) -> None:
        self._home, self._register, self._inquiries, self._clock = home, register, inquiries, clock

    def checked(self, document: Mapping[str, Any]) -> Document:
        """The document, if it can work and this coordinator's policy allows it."""
        return document_of(self.accepted(document))

    def accepted(self, document: Mapping[str, Any]) -> Accepted:
        """The same, with the institutions that are asked where it is they who answer."""
        checked = registry.check(document)
        if isinstance(checked, SiteDocument):
            return self._inquiries.convened(checked)
        if not isinstance(checked, PeopleDocument):
            raise InvalidDocument([("type", "is a kind that neither people nor institutions answer")])
        return self._for_people(checked)

    def examined(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Tell what is wrong with a document, field by field; or, where nothing is, what people would be told of it."""
        try:
            accepted = self.accepted(document)
            if isinstance(accepted, Convocation):
                accepted = self._affordable(accepted.priced())
            checked = document_of(accepted)
            told = {"explanation": registry.drawn(checked.type).explain(checked), "price": price_of(accepted)}
        except InvalidDocument as refused:
            return {"problems": [{"field": field, "message": message} for field, message in refused.problems]}
        except Mistake as refused:
            return {"problems": [{"field": refused.argument, "message": refused.message}]}
        except KindFailed as failed:
            return {"problems": [{"field": "type", "message": f"cannot be asked: {failed}"}]}
        return {"problems": [], "digest": checked.digest, "document": checked.as_json(), **told}

    def quote(self, accepted: Accepted) -> dict[str, Any]:
        """Return what one contributor would pay, and what is known of the answer."""
        priced = self._affordable(accepted.priced()) if isinstance(accepted, Convocation) else accepted
        document = document_of(priced)
        told = {"price": price_of(priced), "expires_at": document.expires_at}
        if (choice := registry.choice(document)) is not None:
            told["choice"] = choice.as_json()
        if (mixed := getattr(document, "promised", None)) is not None:
            told["mixed"] = mixed
        return {**told, **priced.expected()} if isinstance(priced, Convocation) else told

    def task(self, accepted: Accepted, requestor: str) -> NewTask:
        """Make the task that is put up: nothing is stored yet."""
        accepted = self._affordable(accepted.priced()) if isinstance(accepted, Convocation) else accepted
        checked, sites = document_of(accepted), None
        registry.drawn(checked.type).explain(checked)  # what nobody can be told of, nobody may be asked
        aggregator: Aggregator
        if isinstance(accepted, Convocation):
            aggregator, sites = accepted.aggregator(), accepted.as_json()
        else:
            aggregator = registry.aggregator(accepted, setting(self.members(accepted)))
        deadline = checked.deadline
        expires = None if deadline is None else deadline.timestamp()
        new = NewTask(
            id=secrets.token_hex(16),
            requestor=requestor,
            digest=checked.digest,
            document=checked.as_json(),
            created=self._clock.now().timestamp(),
            expires=expires,
            # Of two servers this one holds a share: kept as what must not be read, and destroyed as that.
            trusted=checked.server in ("trusted", "split"),
            part=aggregator.part,
            packets=len(aggregator.parts),
            least=aggregator.least,
            wanted=aggregator.wanted,
            sites=sites,
            helper=getattr(checked, "helper", None),
        )
        return _endless(new, cast(Endless, aggregator)) if aggregator.endless else new

    def members(self, document: PeopleDocument) -> int | None:
        """Return how many people may answer with a token; None where none is asked for."""
        return None if document.group is None else self.record(document).size

    def record(self, document: PeopleDocument) -> GroupRecord:
        """The group, as of its epoch, whose tokens a task takes."""
        return self._register.record(document.group or "", document.epoch)

    def _affordable(self, priced: Convocation) -> Convocation:
        """The same, unless somebody whose rows lie at all of its sites would pay more than this coordinator allows."""
        told, settings = price_of(priced)["in_all"], self._home.settings
        for field, most in (("epsilon", settings.most_epsilon_in_all), ("delta", settings.most_delta_in_all)):
            if most is not None and told[field] > most:
                by_accuracy = field == "epsilon" and getattr(priced.document, "accuracy", None) is not None
                costs = f"costs somebody whose rows lie at all {told['sites']} sites {field} {figure(told[field])}"
                allows = f"this coordinator allows {figure(most)} (most_{field}_in_all)"
                words = f"{costs}, and {allows}: ask for less, or name fewer sites"
                raise InvalidDocument([("accuracy" if by_accuracy else field, words)])
        return priced

    def _for_people(self, checked: PeopleDocument) -> PeopleDocument:
        floor = self._home.settings.min_count_floor
        if checked.min_count < floor:
            raise InvalidDocument([("min_count", f"must be at least {floor} on this coordinator")])
        if self._home.settings.require_purpose:
            unsaid = [field for field in STATED if not getattr(checked, field)]
            if unsaid:
                told = "must be given on this coordinator: people are told what for, whom to ask and until when"
                raise InvalidDocument([(field, told) for field in unsaid])
        check_postable(checked, self._clock.now())
        if checked.server == "split" and checked.expires_at is None:
            told = 'must be given with "server": "split": then both servers destroy what they hold, whatever happened'
            raise InvalidDocument([("expires_at", told)])
        return checked if checked.group is None else self._of_a_group(checked, checked.group)

    def _of_a_group(self, checked: PeopleDocument, group: str) -> PeopleDocument:
        """The document with its epoch, which from now on is part of it: a task takes the tokens of exactly one."""
        record = self._register.published(group, checked.epoch)
        if record is None:
            known = self._register.epochs(group)
            if not known:
                raise InvalidDocument([("group", "is not a group of this coordinator")])
            if checked.epoch is not None and checked.epoch not in known:
                raise InvalidDocument([("epoch", "is not an epoch of this group")])
            field = "group" if checked.epoch is None else "epoch"
            raise InvalidDocument([(field, "is not published yet: its members may still change")])
        needed = _members_needed(checked)
        if record.size < needed:
            raise InvalidDocument(
                [("min_count", f"makes this need {needed} different members, and the group has {record.size}")]
            )
        if checked.epoch is not None:
            return checked
        dated = registry.check({**checked.as_json(), "epoch": record.epoch})
        assert isinstance(dated, PeopleDocument)  # noqa: S101
        return dated


def document_of(accepted: Accepted) -> PeopleDocument | SiteDocument:
    return accepted.document if isinstance(accepted, Convocation) else accepted


def price_of(accepted: Accepted) -> dict[str, Any]:
    """Return what one contributor pays; or, of institutions, one unit at each, and at all of them."""
    document = document_of(accepted)
    if isinstance(accepted, Convocation):
        return price_at_sites(accepted.document, accepted.unit, len(accepted.asked))
    return registry.drawn(document.type).price(document, unit=accepted.unit).as_json()


def _endless(new: NewTask, aggregator: Endless) -> NewTask:
    """A new task with its first state. Whether enough was taken is seen when it has ended."""
    models = [aggregator.saved(place) for place in range(aggregator.pieces)]
    expires = None if new.expires is None else new.expires + _GRACE_SECONDS
    return replace(new, expires=expires, least=0, models=models, facts=aggregator.facts())


def _members_needed(document: PeopleDocument) -> int:
    """Count the different people that it takes to fill every phase, each in as many as one may."""
    least = [document.least_in(phase) for phase in range(document.phases)]
    return max(document.min_count, *least, -(-sum(least) // document.participations))

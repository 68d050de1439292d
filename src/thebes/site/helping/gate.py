"""The gate that says with which tasks a helper helps, by their documents and its own policy, before it hears them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thebes.privacy import exact
from thebes.privacy.figures import figure
from thebes.site.budget.policy import Policy
from thebes.site.requests.messages import Declined
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.site_document import SiteDocument
from thebes.wire.link import Code

GRACE_SECONDS = 86_400.0  #: after its deadline everything of a task is destroyed, whatever its leader says
LONGEST_SECONDS = 400 * 86_400.0  #: until a deadline, and for which an unknown task's farewell is remembered


class HelpGate:
    """One site's. `apart`: it is an institution of its own, and not the coordinator's. What it does not let through is
    declined, saying why."""

    def __init__(self, name: str, *, apart: bool, policy: Callable[[], Policy], clock: Callable[[], float]) -> None:
        self._name, self._apart, self._policy, self._clock = name, apart, policy, clock

    def concerns(self, message: Mapping[str, Any]) -> bool:
        """Return whether a quote is about helping, and not about rows."""
        document = message.get("document")
        if not isinstance(document, Mapping):
            return False
        of_sites = document.get("noise") == "split" and document.get("helper") == self._name
        return document.get("server") == "split" or of_sites

    def document(self, raw: Mapping[str, Any]) -> PeopleDocument | SiteDocument:
        """The document, if this site is its helper."""
        document = registry.posted(raw)
        if not isinstance(document, PeopleDocument | SiteDocument) or document.server != "split":
            raise Declined(Code.DOCUMENT, "only a task whose answers go to two servers has a helper")
        if document.as_json().get("helper") != self._name:
            raise Declined(Code.DOCUMENT, "the document does not name this site as its helper")
        return document

    def allowed(self, requestor: str, document: PeopleDocument | SiteDocument) -> int:
        """Return over how many contributions a sum must be; declined where the policy does not allow to help."""
        if not self._apart:
            raise Declined(Code.POLICY, "the coordinator's own site cannot be its helper: both are one institution")
        of_sites = isinstance(document, SiteDocument)
        price = exact.epsilon(document.epsilon), exact.delta(document.delta)
        rule = self._policy().helps(requestor, *price, sites=of_sites)
        if rule is None:
            more = ", with sites = true" if of_sites else ""
            raise Declined(Code.POLICY, f"the site's policy has no [[help]] that allows it to help with this{more}")
        if isinstance(document, SiteDocument):
            return document.needed(0)
        if document.min_count < rule.min_count:
            raise Declined(Code.POLICY, f"this site helps only where at least {figure(rule.min_count)} people answer")
        return document.min_count

    def until(self, document: PeopleDocument | SiteDocument) -> float:
        """Return until when a task goes on; declined where a key would live for nothing, or for years. A question to
        sites that says nothing is given a day."""
        now = self._clock()
        if document.deadline is None and isinstance(document, SiteDocument):
            return now + GRACE_SECONDS
        if document.deadline is None:
            raise Declined(Code.DOCUMENT, "a helper wants to know until when: the document has no expires_at")
        until = document.deadline.timestamp()
        if not now < until <= now + LONGEST_SECONDS:
            raise Declined(Code.DOCUMENT, "a helper wants an expires_at that lies ahead, and within 400 days")
        return until

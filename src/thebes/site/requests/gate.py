"""The gate that says what may be asked at a site at all: by its documents, its policy and its data sets, before
anything is computed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.policy import Policy, PolicyRule, TaskFacts
from thebes.site.dataset import DataSet, DataSets
from thebes.site.joined_dataset import JoinedDataSets
from thebes.site.requests.messages import Declined, TaskAsk
from thebes.site.requests.response_store import SiteRequest
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.site_document import SiteDocument, declared
from thebes.wire.link import Code

log = logging.getLogger("thebes.site")


class Gate:
    """One site's, by its name. Whatever it does not let through is declined, saying why."""

    def __init__(self, name: str, datasets: DataSets, policy: Callable[[], Policy]) -> None:
        self.name, self._datasets, self._policy = name, datasets, policy
        self._joined = JoinedDataSets()

    def checked(self, raw: Mapping[str, Any]) -> SiteDocument:
        """The document, if it asks this site and can work."""
        try:
            document = registry.posted(raw)
        except Mistake as mistake:
            raise Declined(Code.DOCUMENT, str(mistake)) from None
        if not isinstance(document, SiteDocument):
            raise Declined(Code.DOCUMENT, "this kind of task is for people, not for sites")
        if document.sites != "all" and self.name not in document.sites:
            raise Declined(Code.DOCUMENT, "the document does not ask this site")
        if getattr(document, "helper", None) == self.name:
            raise Declined(Code.DOCUMENT, "the document names this site as its helper: then none of its rows are asked")
        return document

    def rules(self, request: SiteRequest) -> tuple[PolicyRule, ...]:
        """The rule that allows it, for each data set that is asked for."""
        policy = self._policy()
        if policy.trouble is not None:
            log.warning("%s", policy.trouble, extra={"event": "policy.unreadable"})
        found, helper = [], str(request.document.get("helper_key", ""))
        for dataset in request.datasets:
            asked = TaskFacts(request.requestor, dataset, request.kind, request.noise, request.digest, helper)
            rule = policy.rule(asked)
            if rule is None:
                raise Declined(Code.POLICY, policy.refusal(asked))
            found.append(rule)
        return tuple(found)

    def fitting(self, request: SiteRequest, document: SiteDocument) -> DataSet:
        """The data set, if it has what the document asks; of two that are joined, both as one."""
        found = [self._known(name) for name in request.datasets]
        try:
            dataset = found[0] if len(found) == 1 else self._joined(found[0], found[1])
            registry.site_kind(document).fits(document, dataset.schema)
        except (Mistake, Refusal) as mistake:
            raise Declined(Code.SCHEMA, str(mistake)) from None
        if without_noise(document) and not dataset.schema.public:
            raise Declined(Code.POLICY, "this data set is not public: it is answered with noise only")
        return dataset

    def _known(self, name: str) -> DataSet:
        try:
            dataset = self._datasets.get(name)
        except Mistake as mistake:
            log.error("%s", mistake, extra={"event": "dataset.unreadable"})
            raise Declined(Code.DATASET, "this data set is declared in a way that cannot be read") from None
        if dataset is None:
            raise Declined(Code.DATASET, "the site has no data set of that name")
        return dataset

    def within(self, question: TaskAsk, document: SiteDocument) -> None:
        """Refuse the question unless the task has such a part, and a price."""
        ask = question.ask
        if not document.priced:
            raise Declined(Code.DOCUMENT, "what this accuracy costs was not said yet: nobody can answer it")
        if ask.phase >= document.phases or ask.part != part_of(ask.phase):
            raise Declined(Code.DOCUMENT, "the task has no such part")


def as_declared(question: TaskAsk, document: SiteDocument, dataset: DataSet) -> None:
    """Refuse where the task goes by another schema than the data set has now: what is summed would not fit what others
    sum, and where somebody else adds the noise it would hide too little."""
    if question.declared is None and document.noise == "site":
        return  # the noise is this site's own
    if question.declared != declared(dataset.schema, document.reads):
        raise Declined(
            Code.SCHEMA, "the task goes by another declaration of this data set than there is now; put it up anew"
        )


def without_noise(document: SiteDocument) -> bool:
    return getattr(document, "privacy", None) == "none"

"""The feed of what everybody is shown of a task and of what never changes, read once and kept ready."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.coordinator.sites.site_tasks import Inquiries
from thebes.coordinator.storage.store import CoordinatorStore
from thebes.coordinator.tasks.acceptance import price_of
from thebes.privacy.faults import Fault
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.protocols import TaskClosed
from thebes.tasks.site_document import SiteDocument

_KEPT = 10_000  #: tasks


@dataclass(frozen=True, slots=True)
class Notice:
    """One task's."""

    document: PeopleDocument | SiteDocument
    as_json: Mapping[str, Any]
    explanation: str
    price: Mapping[str, Any]
    asked: tuple[str, ...] = ()  #: sites

    @property
    def people(self) -> PeopleDocument:
        """The document of a task that people answer; TaskClosed to whoever would answer one of institutions."""
        if isinstance(self.document, SiteDocument):
            raise TaskClosed("institutions answer this task, each over its own link; nothing was taken")
        return self.document

    @property
    def endless(self) -> bool:
        return isinstance(self.document, PeopleDocument) and self.document.endless


class Notices:
    """Those of one coordinator process."""

    def __init__(self, store: CoordinatorStore, inquiries: Inquiries) -> None:
        self._store, self._inquiries = store, inquiries
        self._kept: OrderedDict[str, Notice] = OrderedDict()

    def kept(self, task_id: str) -> Notice | None:
        """A task's, if nothing has to be read for it: the event loop may ask."""
        return self._kept.get(task_id)

    def of(self, task_id: str) -> Notice:
        """A task's; NotFound where there is no such task. Reads it where it is not kept: for threads."""
        known = self._kept.get(task_id)
        if known is None:
            known = self._kept[task_id] = self._read(task_id)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return known

    def _read(self, task_id: str) -> Notice:
        document = registry.accepted_earlier(self._store.document(task_id))
        asked: tuple[str, ...] = ()
        if isinstance(document, SiteDocument):
            price, asked = self._inquiries.price(task_id, document), self._inquiries.asked(task_id)
        elif isinstance(document, PeopleDocument):
            price = price_of(document)
        else:
            raise Fault("a stored task is one that nobody answers")
        try:
            explanation = registry.drawn(document.type).explain(document)
        except KindFailed as failed:
            explanation = str(failed)
        return Notice(document, document.as_json(), explanation, price, asked)

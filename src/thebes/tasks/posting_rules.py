"""Rules that keep a document from being put up, though it can be simulated: a deadline that passed, no noise at all,
servers that nobody has, and more columns than stores can give."""

from __future__ import annotations

from datetime import datetime

from thebes.data.extent import MOST_COLUMNS
from thebes.tasks.document import Document, InvalidDocument, PeopleDocument
from thebes.tasks.site_document import SiteDocument


def check_postable(document: Document, now: datetime) -> None:
    """Refuse what nobody could answer."""
    if document.deadline is not None and document.deadline <= now:
        raise InvalidDocument([("expires_at", "has passed")])
    if isinstance(document, PeopleDocument | SiteDocument) and document.only_simulated is not None:
        raise InvalidDocument([(document.only_simulated, document.only_simulated_because)])
    if len(getattr(document, "gives", ())) > MOST_COLUMNS:
        raise InvalidDocument([("featurizer", f"gives more than {MOST_COLUMNS} columns, which no person's store does")])

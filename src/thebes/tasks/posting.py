"""What keeps a document from being put up now, though it can be simulated: its deadline, and what stores can give."""

from __future__ import annotations

from datetime import datetime

from thebes.data.extent import MOST_COLUMNS
from thebes.tasks.document import Document, InvalidDocument


def check_postable(document: Document, now: datetime) -> None:
    """Refuse what nobody could answer."""
    if document.deadline is not None and document.deadline <= now:
        raise InvalidDocument([("expires_at", "has passed")])
    if len(getattr(document, "gives", ())) > MOST_COLUMNS:
        raise InvalidDocument([("featurizer", f"gives more than {MOST_COLUMNS} columns, which no person's store does")])

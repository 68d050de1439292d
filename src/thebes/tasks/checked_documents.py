"""The documents that were read of late, so that whoever is shown the same again need not read it again.

What must stay true: a document is found by all of what was read, type by type, and by the class that read it; what is
found is what reading again would give. Every process has its own: nobody relies on what another party has read.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

MOST = 256  #: documents that are kept, the latest
MOST_CHARACTERS = 2**25  #: of what was read, over all that are kept

Read = TypeVar("Read")


class ReadAs(NamedTuple):
    """A reading: the digest of what was read, the class that read it, and whether by the rules for new documents."""

    digest: bytes
    model: type
    new: bool


class CheckedDocuments:
    """The checked documents of one process, frozen, so that everybody may have the same one. Safe for its threads."""

    def __init__(self, *, most: int = MOST, most_characters: int = MOST_CHARACTERS) -> None:
        self._most, self._most_characters = most, most_characters
        self._lock = threading.Lock()
        self._kept: OrderedDict[ReadAs, tuple[Any, int]] = OrderedDict()
        self._characters = 0

    def find(self, text: str | None, model: type[Read], *, new: bool) -> Read | None:
        """Return the document that was read from this text; None where none is kept. What the rules for new documents
        accept is accepted by the older ones, too."""
        if text is None:
            return None
        digest = _digest(text)
        with self._lock:
            for by_new in {True, new}:
                found = self._kept.get(ReadAs(digest, model, by_new))
                if found is not None and isinstance(found[0], model):
                    self._kept.move_to_end(ReadAs(digest, model, by_new))
                    return found[0]
        return None

    def keep(self, text: str | None, document: object, *, new: bool) -> None:
        """Keep a document that was read from this text, and forget the oldest where it is too much."""
        if text is None or len(text) > self._most_characters:
            return
        key = ReadAs(_digest(text), type(document), new)
        with self._lock:
            self._forget(key)
            self._kept[key] = document, len(text)
            self._characters += len(text)
            while len(self._kept) > self._most or self._characters > self._most_characters:
                self._forget(next(iter(self._kept)))

    def _forget(self, key: ReadAs) -> None:
        _, characters = self._kept.pop(key, (None, 0))
        self._characters -= characters


def text_of(document: Mapping[str, Any]) -> str | None:
    """Return what is read, as text that no other document has; None where it is no plain JSON, or nested too deeply."""
    try:
        return json.dumps(document, sort_keys=True) if _plain(document) else None
    except RecursionError:
        return None


def _plain(value: object) -> bool:
    """Return whether a value is what JSON is read as, of just those types: JSON text writes others alike."""
    kind = type(value)
    if isinstance(value, list) and kind is list:
        return all(map(_plain, value))
    if isinstance(value, dict) and kind is dict:
        return all(type(name) is str for name in value) and all(map(_plain, value.values()))
    return value is None or kind in (str, int, float, bool)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()

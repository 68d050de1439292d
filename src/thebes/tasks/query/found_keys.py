"""Keys that nobody has declared: each site says which texts of a column enough of its people have, all of these
together are then the declared values, and all sites answer about each of them.

What must stay true: half of epsilon and half of delta find the keys, the other halves answer; a number of people never
leaves a site here; what is said of keys are texts that can be shown.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import MOST_VALUES, Schema
from thebes.data.table import KeyedTable, Table
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.mechanisms.key_selection import KeySelection
from thebes.privacy.randomness import Randomness
from thebes.privacy.reading import NotJSON, read_json
from thebes.tasks.contributions import Layout, Slot
from thebes.tasks.protocols import Claim
from thebes.tasks.query.kind import QueryDocument

KEYS = "keys"
LONGEST_KEY = 200  #: characters
LONGEST = 200_000  #: of all keys of a site, as they travel
FINDING, ANSWERING = 0, 1  #: the phases
LAYOUT: Layout = {KEYS: Slot("text", length=LONGEST)}


def selection_of(document: QueryDocument, schema: Schema) -> KeySelection:
    """Choose the noise and the threshold by which a site of this schema finds keys."""
    epsilon, delta = document.answering
    most = min(document.max_groups_per_person or 1, schema.max_rows_per_unit)
    try:
        return KeySelection.calibrated(epsilon=epsilon, delta=delta, keys=most)
    except Mistake as refused:
        raise Mistake(refused.argument if refused.argument in ("epsilon", "delta") else "by", refused.message) from None


def found(
    document: QueryDocument, table: Table, claim: Claim, *, randomness: Randomness
) -> dict[str, NDArray[np.generic]]:
    """Find the keys of a site, as they travel: in the order of their letters, which says nothing."""
    if not isinstance(table, KeyedTable):
        raise Fault("a table that cannot be looked through for keys was asked for them")
    schema = table.schema
    selection = selection_of(document, schema)
    epsilon, delta = selection.spent
    claim.consume(epsilon=epsilon, delta=delta)
    where = document.condition(schema)
    people = table.occurring(document.undeclared(schema), where, most=selection.keys, longest=LONGEST_KEY)
    texts = sorted(text for text in people if _sayable(text))
    said = selection.said(np.array([people[text] for text in texts], dtype=np.int64), randomness)
    shown = [text for text, one in zip(texts, said.tolist(), strict=True) if one][:MOST_VALUES]
    while len(written := json.dumps(shown, ensure_ascii=False)) > LONGEST:
        shown = shown[: len(shown) // 2]
    return {KEYS: np.array([written])}


def read(fields: Mapping[str, NDArray[np.generic]]) -> tuple[str, ...]:
    """Read the keys that a site says, or refuse them."""
    try:
        told = read_json(str(np.asarray(fields[KEYS]).reshape(-1)[0]))
    except NotJSON:
        told = None
    return _keys(told, f"payload.{KEYS}")


def asked(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the keys that an ask declares, or refuse them."""
    keys = _keys(payload.get(KEYS), f"payload.{KEYS}")
    if not keys:
        raise Mistake(f"payload.{KEYS}", "declares no key: there is nothing to answer about")
    return keys


def together(document: QueryDocument, schema: Schema, said: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the keys of all sites, those that most say first where not all can be told apart, in the order of their
    letters."""
    counts = Counter(key for keys in said for key in keys)
    kept = sorted(counts, key=lambda key: (-counts[key], key))[:MOST_VALUES]
    while kept:
        try:
            document.plan(document.declared(schema, kept))
            break
        except Mistake:
            kept = kept[: len(kept) // 2]
    return tuple(sorted(kept))


def _keys(told: object, field: str) -> tuple[str, ...]:
    if not isinstance(told, list) or not all(isinstance(key, str) for key in told):
        raise Mistake(field, "must be a list of texts")
    if len(told) > MOST_VALUES or len(set(told)) != len(told) or not all(map(_sayable, told)):
        raise Mistake(field, "must be keys that can be said, each once")
    return tuple(told)


def _sayable(text: str) -> bool:
    return len(text) <= LONGEST_KEY and text.isprintable()

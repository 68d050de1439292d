"""Totals of sites, added up by their helper: one message of shares, one noised sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.data.schema import Schema, schema_of
from thebes.privacy.randomness import Randomness
from thebes.sharing import SealingKey
from thebes.sharing.site_totals import SEALED_BYTES
from thebes.site.requests.messages import Declined
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import SealedShare, helper_sum
from thebes.tasks.site_document import SiteDocument
from thebes.wire import helping
from thebes.wire.link import Code


def added_up(
    document: SiteDocument,
    context: bytes,
    message: Mapping[str, Any],
    key: SealingKey,
    *,
    least: int,
    randomness: Randomness,
) -> dict[str, Any]:
    """Return which shares of a message open in this context, and their sum with noise; declined where fewer than so
    many do. Whoever calls this stores it before a byte leaves, and never calls it twice for one context."""
    shares = [
        SealedShare(nonce, sealed, _fitting(document, schema), sort)
        for nonce, sealed, schema, sort in helping.sealed_shares(message, SEALED_BYTES)
    ]
    made = helper_sum(document, context, shares, registry.noises(document, shares), key, randomness)
    if sum(made.counted) < least:
        raise Declined(Code.POLICY, f"this helper adds up the totals of no fewer than {least} sites")
    counted = "".join("1" if each else "0" for each in made.counted)
    return {"counted": counted, "sum": helping.written_sum(made.total.tolist())}


def _fitting(document: SiteDocument, raw: Mapping[str, Any]) -> Schema:
    """Return the declaration of rows that a site is said to go by, or a Mistake where none such can answer."""
    schema = schema_of(raw)
    registry.site_kind(document).fits(document, schema)
    return schema

"""The description in which a site says what it has, read from a message of a stranger."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from thebes.data.schema import read_shown
from thebes.privacy.faults import Mistake
from thebes.tasks.site_document import DATASET_NAME
from thebes.wire.link import Word

_MOST_DATASETS = 1000
log = logging.getLogger("thebes.coordinator")


def described(site: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Read what a site says it has, data set by data set; what is not a schema is left out."""
    told = answer.get("datasets")
    if answer["kind"] != Word.DESCRIBED or not isinstance(told, Mapping) or len(told) > _MOST_DATASETS:
        raise Mistake("datasets", "is not there, or holds too many")
    found: dict[str, Any] = {}
    for name, each in told.items():
        schema = each.get("schema") if isinstance(each, Mapping) else None
        if not re.fullmatch(DATASET_NAME, str(name)) or not isinstance(schema, Mapping):
            log.warning(
                "site %s: a data set it describes has no usable name or no schema",
                site,
                extra={"event": "site.schema-refused", "site": site},
            )
            continue
        try:
            read_shown(schema)
        except Mistake as mistake:
            log.warning(
                "site %s: the schema of %s cannot be used: %s",
                site,
                name,
                mistake,
                extra={"event": "site.schema-refused", "site": site},
            )
            continue
        found[name] = {"schema": dict(schema), "public": bool(each.get("public") is True)}
    return found

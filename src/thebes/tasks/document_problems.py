"""The problems of a document that cannot be read: each field at fault, and what is wrong with it, in words of ours."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from thebes.privacy.field_errors import in_words
from thebes.privacy.spelling import did_you_mean

#: what a statistic is called elsewhere
_OTHERS_CALL_IT = {"average": "mean", "avg": "mean", "median": "quantile", "percentile": "quantile", "var": "variance"}


def problems(error: ValidationError, fields: Collection[str]) -> list[tuple[str, str]]:
    """List (field, what is wrong), fields that no document has first: what is missing may be a misspelt one of them."""
    errors = error.errors(include_url=False)
    return [_problem(each, fields) for each in sorted(errors, key=lambda each: each["type"] != "extra_forbidden")]


def _problem(error: Any, fields: Collection[str]) -> tuple[str, str]:
    where = [str(part) for part in error["loc"] if part not in ("range", "set")]
    message = in_words(error)
    if error["type"] == "rule":
        message = str(error["msg"])
        where.append(str(error["ctx"]["field"]))
    elif error["type"] == "extra_forbidden":
        meant = did_you_mean(where[0], fields) if len(where) == 1 else ""
        message = f"is not a field of this document{meant}"
    elif error["type"] == "literal_error" and isinstance(error["input"], str):
        known = re.findall(r"'([^']+)'", error["ctx"]["expected"])
        message += did_you_mean(error["input"][:40], known, _OTHERS_CALL_IT)
    elif error["type"] == "union_tag_invalid":  # its own message repeats the tag
        where.append("type")
        message = f"must be {error['ctx']['expected_tags']}"
    return ".".join(part[:40] for part in where) or "document", message

"""A question as text to take along: in Python, in SQL, as JSON, as a command. Each puts up the same document, by its
digest; SQL only where a SELECT gives that very document."""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Mapping
from typing import Any

from thebes.data.join import Join
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.tasks import registry

_AGGREGATES = {"count": "COUNT", "sum": "SUM", "mean": "AVG", "variance": "VAR_POP", "quantile": "QUANTILE_CONT"}


def copies(document: Mapping[str, Any], digest: str, url: str, schema: Schema | Join | None) -> dict[str, str]:
    """Write a document that was checked in each way, by what the way is called."""
    said = _said(document, digest)
    sql = None if schema is None else _sql(said, digest, url, schema)
    found = {"Python": _python(said, url), "SQL": sql, "JSON": _json(said), "command": _command(said, url)}
    return {name: text for name, text in found.items() if text}


def _said(document: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """Leave out what a document says anyway: every field without which it means the same."""
    kept = {name: value for name, value in document.items() if value is not None}
    for name in list(kept):
        if name == "type":
            continue
        shorter = {field: value for field, value in kept.items() if field != name}
        try:
            if registry.check(shorter).digest == digest:
                kept = shorter
        except Mistake:
            continue
    return kept


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _python(document: Mapping[str, Any], url: str) -> str:
    written = pprint.pformat(dict(document), width=100, sort_dicts=False)
    return "\n".join(
        (
            _connecting(url),
            f"document = {written}",
            "print(server.quote(document))",
            "release = server.submit(document).wait()",
            "print(release)",
        )
    )


def _connecting(url: str) -> str:
    return f'import os\n\nimport thebes\n\nserver = thebes.connect({url!r}, token=os.environ["THEBES_TOKEN"])'


def _command(document: Mapping[str, Any], url: str) -> str:
    at = f"--coordinator {shlex.quote(url)}"
    file = f"cat > question.json <<'THE_QUESTION'\n{_json(document)}\nTHE_QUESTION"
    return f"{file}\nthebes task submit question.json {at} --wait"


def _sql(document: Mapping[str, Any], digest: str, url: str, schema: Schema | Join) -> str | None:
    """The call of a SELECT that gives this document; None where there is none."""
    from thebes.sql.question import read

    asked = document.get("statistics")
    if document["type"] != "query" or not isinstance(asked, Mapping) or "features" in document:
        return None
    if not all(one.get("statistic") in _AGGREGATES for one in asked.values()):
        return None
    by = document.get("by") or []
    items = [*by, *(_aggregate(one) for one in asked.values())]
    where = f"\nWHERE {document['where']}" if document.get("where") else ""
    joined = f" JOIN {document['join']} USING (person)" if document.get("join") else ""
    groups = f"\nGROUP BY {', '.join(by)}" if by else ""
    text = f"SELECT {', '.join(items)}\nFROM {document['dataset']}{joined}{where}{groups}"
    rest = ("type", "dataset", "join", "statistics", "by", "where", "epsilon", "delta")
    more = {name: value for name, value in document.items() if name not in rest}
    price = {"epsilon": document.get("epsilon"), "delta": document.get("delta", 0.0)}
    try:
        if price["epsilon"] is None or registry.check(read(text, schema, **price, **more).document).digest != digest:
            return None
    except (Mistake, TypeError):
        return None
    told = "".join(f", {name}={value!r}" for name, value in {**price, **more}.items() if value)
    literal = repr(text) if "\\" in text or '"' in text else f'"""{text}"""'
    call = f"server.sql({literal}{told})"
    return f"{_connecting(url)}\nprint({call})"


def _aggregate(one: Mapping[str, Any]) -> str:
    inside = [one.get("column") or "*", *([str(one["quantile"])] if one.get("quantile") is not None else [])]
    return f"{_AGGREGATES[one['statistic']]}({', '.join(inside)})"

"""A pipeline's answer: its verdict, every attempt, and what the accepted model was shown to reach."""

from __future__ import annotations

from typing import Any

from thebes.tasks.answer_view import AnswerTable, Cells, Section, short
from thebes.tasks.document import Document
from thebes.tasks.release import Release

_SAID = {
    "ACCEPT": "The model is good enough, and is kept in the site's store.",
    "REJECT": "No model of this kind can meet the targets, with whatever data and budget.",
    "RETRY": "No model was shown to be good enough with the data and budget there are now. Later there may be more.",
    "TIMEOUT": "No model was shown to be good enough in the time that was given.",
}


def sections(release: Release, document: Document) -> list[Section]:
    verdict, reason = str(release.extra["verdict"]), str(release.extra.get("reason") or "")
    words = f"{verdict}. {_SAID[verdict]}" + (f" ({reason})" if reason else "")
    head, rows = table(release)
    return [
        Section("Verdict", words + _reached(release)),
        Section(
            "Attempts", "Each was charged to all of its blocks before a row was read.", table=AnswerTable.of(head, rows)
        ),
    ]


def table(release: Release) -> Cells:
    rows = [
        (each["number"], len(each["blocks"]), _rows(each), each["epsilon"], _found(each), each["verdict"] or "")
        for each in release.extra["attempts"]
    ]
    return ("attempt", "blocks", "rows, about", "epsilon of each", "found", "verdict"), rows


def _rows(attempt: dict[str, Any]) -> float | str:
    """Return about how many rows there were; nothing of an attempt that never was charged for them."""
    return "" if attempt["rows"] is None else float(attempt["rows"])


def _reached(release: Release) -> str:
    told = [
        f" {each['metric']} is no worse than {short(each['bound'])} (wanted {short(each['target'])})."
        for each in release.extra.get("validation") or ()
        if each.get("bound") is not None
    ]
    return "".join(told)


def _found(attempt: dict[str, Any]) -> str:
    metrics = (attempt.get("validation") or {}).get("metrics", ())
    told = [f"{one['metric']} {short(one['value'])}" for one in metrics if one.get("value") is not None]
    return ", ".join(told)

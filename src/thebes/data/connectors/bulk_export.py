"""The files of a FHIR bulk export: resources of a patient, read from lines of JSON one after another.

What must stay true: no line changes what becomes of another, nor whether a question is answered; one that is no
resource of its file's type, or of no patient of the export, is left out and counted for whoever keeps the files. What
was entered in error never counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thebes.data.connectors.connector import SourceUnavailable

LONGEST_LINE = 16_000_000  #: characters; a longer one is no resource
UCUM = "http://unitsofmeasure.org"

Resource = Mapping[str, Any]

_REFERENCE = re.compile(r"(?:.*/)?Patient/([A-Za-z0-9.-]{1,64})(?:/_history/.*)?|urn:uuid:([0-9A-Fa-f-]{36})")
_MOMENT = re.compile(r"\d{4}(-\d{2}(-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?)?)?")
#: by resource type, the states in which one was never true
_NEVER = {
    "Observation": {"entered-in-error", "cancelled", "registered", "unknown"},
    "Encounter": {"entered-in-error", "cancelled", "planned"},
}
_REFUTED = {"entered-in-error", "refuted"}


def files(folder: Path, kind: str) -> tuple[Path, ...]:
    """Return the files of a resource type: `Observation.ndjson`, `Observation.0001.ndjson` and so on."""
    found = (p for p in folder.iterdir() if re.fullmatch(rf"{kind}([._-].*)?\.ndjson", p.name) and p.is_file())
    return tuple(sorted(found))


def resources(path: Path, kind: str) -> Iterator[tuple[int, Resource | str]]:
    """Give every line's number and its resource, or the reason why it is none."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, _resource(line, kind)
    except OSError:
        raise SourceUnavailable(f"source.path: {path.name} cannot be read") from None


def _resource(line: bytes, kind: str) -> Resource | str:
    if len(line) > LONGEST_LINE:
        return "a line that is too long"
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return "no JSON object in UTF-8"
    if not isinstance(found, dict):
        return "no JSON object in UTF-8"
    return found if found.get("resourceType") == kind else f"no {kind}"


def holds(resource: Resource) -> bool:
    """Return whether a resource was not entered in error, refuted, cancelled or only planned."""
    if text(resource.get("status")) in _NEVER.get(str(resource.get("resourceType")), ()):
        return False
    codes = {code for _, code in codings(resource.get("verificationStatus"))}
    return not codes & _REFUTED


def patient_of(resource: Resource) -> str | None:
    """Return the id of the patient that a resource is about."""
    reference = _mapping(resource.get("subject", resource.get("patient"))).get("reference")
    found = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    return None if found is None else found[1] or found[2]


def codings(concept: object) -> Iterator[tuple[str, str]]:
    """Give system and code of each coding of a concept."""
    for coding in _list(_mapping(concept).get("coding")):
        system, code = text(_mapping(coding).get("system")), text(_mapping(coding).get("code"))
        if code is not None:
            yield system or "", code


def coded(concept: object) -> set[str]:
    """Return the codes of a concept, each as `system|code`."""
    return {f"{system}|{code}" for system, code in codings(concept)}


def measured(observation: Resource) -> Iterator[tuple[set[str], float, str]]:
    """Give the codes, the number and the UCUM unit of everything that an observation measured exactly: itself, and each
    of its components."""
    for part in (observation, *map(_mapping, _list(observation.get("component")))):
        quantity = _mapping(part.get("valueQuantity"))
        value, unit = number(quantity.get("value")), text(quantity.get("code"))
        exact = "comparator" not in quantity and quantity.get("system") == UCUM
        if value is not None and unit is not None and exact:
            yield coded(part.get("code")), value, unit


def number(value: object) -> float | None:
    """Return what is a number that a column can hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def text(value: object) -> str | None:
    """Return what is a text that a column can hold."""
    if not isinstance(value, str) or "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which JSON can spell
        return None
    return value


def moment(*written: object) -> datetime | None:
    """Return the first moment that is written in one of FHIR's ways, in UTC; of a year, a month or a day its begin."""
    for said in written:
        if not isinstance(said, str) or not _MOMENT.fullmatch(said):
            continue
        whole = said + "0001-01-01"[len(said) :] if len(said) < 10 else said
        try:
            found = datetime.fromisoformat(whole)
            return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            continue
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

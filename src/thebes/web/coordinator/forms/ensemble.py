"""Fields of an ensemble which stand in the form in another shape than in its document: where numbers are cut, and which
columns go into one packet.

What must stay true: what cannot be read is a problem of its field, and what has no place here stays where it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thebes.web.coordinator.forms.bound import BoundDraft, number, typed

#: where numbers are cut into bins
CUTS = {
    "median": "in two, at the median",
    "quantiles": "into bins of equally many people",
    "given": "where I say, below",
}
#: fields of the form that no document has under the same name, or not in the same shape
RESHAPED = ("cut", "bins", "feature_subsets")


def written(fields: Mapping[str, str], bounds: Sequence[BoundDraft], problems: list[tuple[str, str]]) -> dict[str, Any]:
    """These parts of the document."""
    made: dict[str, Any] = {"bins": _bins(fields, bounds, problems)}
    packets = [_listed(line) for line in fields.get("feature_subsets", "").splitlines()]
    if any(packets):
        made["feature_subsets"] = [packet for packet in packets if packet]
    return made


def drafted(rest: dict[str, Any], bounds: list[BoundDraft]) -> tuple[dict[str, str], list[BoundDraft]]:
    """The fields and bounds of the form that mean these parts of a document. Takes out of `rest` what they say, and
    what a document that does not say it means as well."""
    from thebes.tasks.ensemble.kind import EnsembleDocument

    fields = {}
    bins = rest.get("bins")
    if bins == "median" or _whole(bins):
        fields["cut"] = "median" if bins == "median" else "quantiles"
        fields["bins"] = "" if bins == "median" else typed(rest["bins"])
        del rest["bins"]
    elif isinstance(bins, Mapping) and set(bins) <= {b.column for b in bounds} and all(map(_numbers, bins.values())):
        fields["cut"] = "given"
        bounds = [replace(b, cuts=", ".join(map(typed, bins.get(b.column, ())))) for b in bounds]
        del rest["bins"]
    packets = rest.get("feature_subsets")
    if isinstance(packets, (list, tuple)) and packets and all(_plain(packet) for packet in packets):
        fields["feature_subsets"] = "\n".join(", ".join(packet) for packet in packets)
        del rest["feature_subsets"]
    for name, meant in EnsembleDocument.model_fields.items():
        if name in rest and rest[name] == meant.default:
            del rest[name]
    return fields, bounds


def _bins(fields: Mapping[str, str], bounds: Sequence[BoundDraft], problems: list[tuple[str, str]]) -> Any:
    cut = fields.get("cut", "")
    if cut == "given":
        return _thresholds(bounds, problems)
    if cut != "quantiles":
        return "median"
    wanted = number(fields.get("bins", "").strip())
    if not _whole(wanted):
        problems.append(("bins", "must be a whole number"))
    return wanted


def _thresholds(bounds: Sequence[BoundDraft], problems: list[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for bound in bounds:
        if bound.kind != "range" or not bound.cuts.strip():
            continue
        read = [number(part) for part in _listed(bound.cuts)]
        if None in read:
            problems.append((f"bins.{bound.column}", "must be numbers with commas between them"))
        found[bound.column] = read
    return found


def _listed(line: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,\n]", line) if part.strip()]


def _plain(packet: object) -> bool:
    """Return whether a packet's columns can be written in one line."""
    if not isinstance(packet, (list, tuple)) or not packet:
        return False
    return all(isinstance(column, str) and _listed(column) == [column] for column in packet)


def _whole(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool)


def _numbers(found: object) -> bool:
    return isinstance(found, (list, tuple)) and all(_whole(each) or isinstance(each, float) for each in found)

"""Fields of a model that keeps learning which stand in the form in another shape than in its document: its learning
rates, which inputs are multiplied, what hides an owner.

What must stay true: what cannot be read is a problem of its field, and what has no place here stays where it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from thebes.web.coordinator.forms.bound import number, typed

FAMILIES = {
    "logistic": "logistic: which of two values",
    "multinomial": "multinomial: which of several values",
    "linear": "linear: a number",
    "poisson": "Poisson: a count",
}
#: what hides an owner
HIDINGS = {
    "privunit": "PrivUnit: one random direction",
    "laplace-l1": "Laplace noise, for the whole person",
    "gaussian": "Gaussian noise, for the whole person",
    "laplace": "Laplace noise, weight by weight",
}
CROSSES = {"pairwise": "of every two inputs", "given": "of the pairs I name"}
#: fields of the form that no document has under the same name, or not in the same shape
RESHAPED = ("crosses", "pairs", "rates", "hiding", "epsilon_per_weight", "keep")
#: where in the form fields of a document stand that have another name there
ANCHORS = {"learning_rate": "rates", "mechanism": "hiding"}


def written(made: dict[str, Any], fields: Mapping[str, str], problems: list[tuple[str, str]]) -> dict[str, Any]:
    """The document `made` with these parts."""
    made = dict(made)
    rates = [number(each) for each in _listed(fields.get("rates", ""))]
    if None in rates:
        problems.append(("learning_rate", "must be a number, or several with commas between them"))
    elif rates:
        made["learning_rate"] = rates[0] if len(rates) == 1 else rates
    if len(rates) > 1 and fields.get("keep", "").strip():
        made["keep"] = _read("keep", fields["keep"], problems)
    if fields.get("crosses") == "pairwise":
        made["crosses"] = "pairwise"
    elif fields.get("crosses") == "given":
        made["crosses"] = [_listed(line) for line in fields.get("pairs", "").splitlines() if line.strip()]
    made["mechanism"] = fields.get("hiding") or "privunit"
    if made["mechanism"] == "laplace":
        made.pop("epsilon", None)  # follows from that of each weight
        if fields.get("epsilon_per_weight", "").strip():
            made["epsilon_per_weight"] = _read("epsilon_per_weight", fields["epsilon_per_weight"], problems)
    return made


def drafted(rest: dict[str, Any]) -> dict[str, str]:
    """The fields of the form that mean these parts of a document. Takes out of `rest` what they say, and what a
    document that does not say it means as well."""
    from thebes.tasks.draw_discard.kind import DrawDiscardDocument

    fields = {"crosses": "", "pairs": "", "rates": "", "hiding": "privunit"}
    if "model" in rest:
        fields["family"] = ""
    rates = rest.get("learning_rate")
    listed = rates if isinstance(rates, (list, tuple)) else [rates]
    if all(isinstance(rate, (int, float)) and not isinstance(rate, bool) for rate in listed):
        fields["rates"] = ", ".join(map(typed, listed))
        del rest["learning_rate"]
    for name, field in (("keep", "keep"), ("epsilon_per_weight", "epsilon_per_weight"), ("mechanism", "hiding")):
        if isinstance(rest.get(name), (str, int, float)):
            fields[field] = typed(rest.pop(name))
    crosses = rest.get("crosses")
    if crosses == "pairwise":
        fields["crosses"] = rest.pop("crosses")
    elif isinstance(crosses, (list, tuple)) and crosses and all(map(_plain, crosses)):
        fields |= {"crosses": "given", "pairs": "\n".join(", ".join(pair) for pair in rest.pop("crosses"))}
    for name, meant in DrawDiscardDocument.model_fields.items():
        if name in rest and rest[name] == meant.default:
            del rest[name]
    return fields


def _read(name: str, text: str, problems: list[tuple[str, str]]) -> Any:
    read = number(text.strip())
    if read is None:
        problems.append((name, "must be a number"))
    return read


def _listed(line: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,\n]", line) if part.strip()]


def _plain(pair: object) -> bool:
    """Return whether a pair can be written in one line."""
    if not isinstance(pair, (list, tuple)) or not pair:
        return False
    return all(isinstance(column, str) and _listed(column) == [column] for column in pair)

"""The proposal of a schema for rows that nobody has declared yet: from the names of their columns, and nothing else.

What must stay true: no value of a row has any influence on it; whatever must be known beforehand is left open, with a
hint from what everybody knows, and nothing is declared with it as it stands.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from thebes.data.connectors.connector import Held
from thebes.data.schema import OPEN
from thebes.privacy.figures import figure

_LONGEST = 63


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A kind of column that everybody knows: the words of its name, and what its values are."""

    words: tuple[str, ...]
    type: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()


_KNOWN = (
    KnownColumn(("age", "alter", "edad", "eta"), "integer", 0, 120),
    KnownColumn(("sex", "gender", "geschlecht", "sexe", "sexo"), "string", values=("female", "male")),
    KnownColumn(("weight", "gewicht", "kg", "poids", "peso"), "float", 0, 300),
    KnownColumn(("height", "groesse", "grosse", "cm", "taille"), "float", 30, 250),
    KnownColumn(("bmi",), "float", 10, 80),
    KnownColumn(("systolic", "sbp"), "float", 50, 250),
    KnownColumn(("diastolic", "dbp"), "float", 20, 150),
    KnownColumn(("pulse", "heartrate", "puls"), "float", 20, 250),
    KnownColumn(("temperature", "temperatur"), "float", 30, 45),
    KnownColumn(("year", "birthyear", "jahr", "annee"), "integer", 1900, 2100),
)
_KEYS = ("id", "patient", "person", "mrn", "subject", "pseudonym")


@dataclass(frozen=True, slots=True)
class Proposal:
    """The text of a schema with open places, and the names that columns of the file get here."""

    schema: str
    renamed: Mapping[str, str]
    open: int


def proposal(columns: Mapping[str, Held]) -> Proposal:
    """Propose a schema for columns and what a source says that they hold (`text`: it does not say)."""
    names = _names_of(columns)
    lines = [
        f'unit = "{OPEN}"                # "person" hides everything of one person, "event" one row only',
        "max_rows_per_unit = 1",
    ]
    for name, (column, held) in zip(names, columns.items(), strict=True):
        lines += ["", f"[columns.{name}]"] + (
            [f"# in the file: {json.dumps(column, ensure_ascii=False)}"] * (name != column)
        )
        lines += _column(_words(column), held)
    renamed = {name: column for name, column in zip(names, columns, strict=True) if name != column}
    text = "\n".join(lines) + "\n"
    return Proposal(text, renamed, text.count(f'"{OPEN}"'))


def _column(words: set[str], held: Held) -> list[str]:
    """Write one column; its type where the source says it, everything else open."""
    known = next((each for each in _KNOWN if words & set(each.words)), None)
    usual = f"   # usually {known.type}" if known is not None else "   # integer, float, string, boolean or timestamp"
    told = held not in ("text", "other")
    lines = [f'type = "{held}"' if told else f'type = "{OPEN}"{usual}']
    if words & set(_KEYS):
        return [*lines, "# key = true                 # if it says whose a row is: never shown, never asked for"]
    kind = held if told else known.type if known is not None else "?"
    if kind in ("integer", "float"):
        low, high = (
            ("", "")
            if known is None or known.low is None
            else (f"   # usually {figure(known.low)}", f"   # usually {figure(known.high)}")
        )
        return [*lines, f'low = "{OPEN}"{low}', f'high = "{OPEN}"{high}']
    if kind == "string":
        usual = (
            f"   # usually {list(known.values)}"
            if known is not None and known.values
            else "   # a list of texts; without one it is for conditions only"
        )
        return [*lines, f'values = "{OPEN}"{usual}']
    if kind == "?":
        return [*lines, "# low = 0, high = 1 for a number; values = [...] for a text"]
    return lines


def _names_of(columns: Mapping[str, Held]) -> list[str]:
    """Return names that a schema may have, in the same order; equal ones get a number."""
    found: list[str] = []
    for column in columns:
        plain = re.sub(r"[^0-9a-z]+", "_", _plain(column)).strip("_") or "column"
        plain = (plain if plain[0].isalpha() else f"c_{plain}")[: _LONGEST - 4]
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", column) and column.lower() not in (n.lower() for n in found):
            plain = column
        number, name = 2, plain
        while name.lower() in (n.lower() for n in found):
            number, name = number + 1, f"{plain}_{number}"
        found.append(name)
    return found


def _words(column: str) -> set[str]:
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", column)
    words = re.findall(r"[a-z]+", _plain(split))
    return {*words, "".join(words)}


def _plain(text: str) -> str:
    """Return a name in small Latin letters without marks."""
    spelled = text.replace("ß", "ss").replace("ö", "oe").replace("ä", "ae").replace("ü", "ue").replace("Ö", "Oe")
    return unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode().lower()

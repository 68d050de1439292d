"""The proposal of a schema for rows that nobody has declared yet: from the names of their columns, and nothing else.

What must stay true: no value of a row has any influence on it; whatever must be known beforehand is left open, with a
hint from what everybody knows, and nothing is declared with it as it stands.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thebes.data.connectors.connector import Held
from thebes.data.schema import OPEN, TYPES
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.site.toml_text import value_of

MOST_COLUMNS = 1_000
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
    KnownColumn(("photo", "picture", "image", "bild", "foto", "imagen", "png", "jpg", "jpeg"), "image"),
    KnownColumn(("year", "birthyear", "jahr", "annee"), "integer", 1900, 2100),
)
_SIDES = {
    "height": "rows of points that every picture is brought to",
    "width": "points in each",
    "channels": "1 for grey, 3 for colour",
    "shape": "such as [3, 32, 32]",
    "low": "no number is less",
    "high": "no number is greater",
}
#: words of which one says whose a row is; not the number of a case, of which a person may have several
_KEYS = re.compile(
    r"id|mrn|(patient|person|subject|proband|pseudonym|versicherten)(en|s)?(id|nr|no|nummer|number|code|kennung)?"
)


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column by the name that it gets here: what it is called in the file, what the source says that it holds, and
    what everybody knows of columns that are called so."""

    name: str
    column: str
    held: Held
    known: KnownColumn | None
    like_key: bool

    @property
    def told(self) -> bool:
        """Return whether the source says the type."""
        path = self.held == "string" and self.known is not None and self.known.type == "image"
        return self.held not in ("text", "other") and not path


@dataclass(frozen=True, slots=True)
class Proposal:
    """The text of a schema with open places, and the names that columns of the file get here."""

    schema: str
    renamed: Mapping[str, str]
    open: int
    pictures: bool  #: whether a column may hold paths of pictures


def header_columns(line: str, delimiter: str) -> dict[str, Held]:
    """Return the columns that the first line of a CSV file names; what they hold it does not say."""
    names = next(csv.reader([line.lstrip("\ufeff")], delimiter=delimiter), [])
    if not 1 <= len(names) <= MOST_COLUMNS or not all(name.strip() for name in names):
        raise Mistake(
            "header", f"must name 1 to {MOST_COLUMNS:,} columns, each with a name: paste the first line alone"
        )
    if len(set(names)) < len(names):
        raise Mistake("header", "names a column twice; give them different names where they lie")
    return dict.fromkeys(names, "text")


def columns_of(columns: Mapping[str, Held]) -> list[ProposedColumn]:
    """Propose a name for each column, with what everybody knows of columns that are called so."""
    found = []
    for name, (column, held) in zip(_names_of(columns), columns.items(), strict=True):
        words = _words(column)
        known = next((each for each in _KNOWN if words & set(each.words)), None)
        found.append(ProposedColumn(name, column, held, known, known is None and like_key(column)))
    return found


def like_key(column: str) -> bool:
    """Return whether a column's name is one of those that say whose a row is."""
    return any(_KEYS.fullmatch(word) for word in _words(column))


def proposal(columns: Mapping[str, Held]) -> Proposal:
    """Propose a schema for columns and what a source says that they hold (`text`: it does not say)."""
    check_names(list(columns))
    found = columns_of(columns)
    lines = [
        f'unit = "{OPEN}"                # "person" hides everything of one person, "event" one row only',
        "max_rows_per_unit = 1",
        "# one column may say whose a row is (key = true); without a key each row counts as a person of its own",
    ]
    for each in found:
        lines += ["", f"[columns.{each.name}]"]
        lines += [f"# in the file: {value_of(each.column)}"] * (each.name != each.column) + _column(each)
    text = "\n".join(lines) + "\n"
    pictures = any(each.known is not None and each.known.type == "image" and not each.told for each in found)
    return Proposal(text, renamed(found), text.count(f'"{OPEN}"'), pictures)


def check_names(names: Sequence[str], *, in_form: bool = False) -> None:
    """Refuse names that show that the file was not read as it is written; what to do is done in a form or in a file."""
    if any("\ufffd" in name or not name.replace("\t", "").isprintable() for name in names):
        otherwise = "choose the encoding in which it was written" if in_form else "describe it in a .toml"
        raise Mistake(
            "header", f"has column names that are not text; check that this is a CSV file in UTF-8, or {otherwise}"
        )
    held = next((each for each in ",;\t|" if len(names) == 1 and each in names[0]), None)
    if held is not None:
        told = f'say delimiter = "{held}" in a .toml, with kind and path'.replace("\t", "\\t")
        told = "choose it above as what stands between two names" if in_form else told
        raise Mistake("header", f"is one name with {held!r} in it; where that parts columns, {told}")


def renamed(columns: Sequence[ProposedColumn]) -> dict[str, str]:
    """Return what columns are called in the file that are called otherwise here."""
    return {each.name: each.column for each in columns if each.name != each.column}


def _column(proposed: ProposedColumn) -> list[str]:
    """Write one column; its type where the source says it, everything else open."""
    known, told, held = proposed.known, proposed.told, proposed.held
    usual = f"   # usually {known.type}" if known is not None else f"   # {', '.join(TYPES)}"
    held = "image" if held == "bytes" else held
    lines = [f'type = "{held}"' if told else f'type = "{OPEN}"{usual}']
    if proposed.like_key:
        return [*lines, "# key = true                 # if it says whose a row is: never shown, never asked for"]
    kind = held if told else known.type if known is not None else "?"
    if kind in ("image", "array"):
        sides = ("height", "width", "channels") if kind == "image" else ("shape", "low", "high")
        return [*lines, *(f'{side} = "{OPEN}"   # {_SIDES[side]}' for side in sides)]
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

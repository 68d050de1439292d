"""`thebes errors`: the catalogue of errors, offline. It is the page docs/errors.md, which is part of the package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from thebes.privacy.faults import Mistake
from thebes.privacy.spelling import did_you_mean

_PAGE = Path(__file__).with_name("errors.md")
_ROW = re.compile(r'^\| <a id="([^"]+)"></a>(.+) \|$')
_FAMILIES = {"yours": "Yours to mend.", "policy": "A rule or a state says no.", "ours": "A fault of ours."}


class CatalogueEntry(NamedTuple):
    """One error: what happened and why, and what to do."""

    name: str
    family: str  #: nothing of a site's reasons and a token's flaws
    happened: str
    advice: str


def catalogue() -> Iterator[CatalogueEntry]:
    """Read the entries of the page, in its order."""
    for line in _PAGE.read_text(encoding="utf-8").splitlines():
        if row := _ROW.match(line):
            _, *cells = (_plain(cell) for cell in row[2].split(" | "))
            yield CatalogueEntry(row[1], *(cells if len(cells) == 3 else ["", *cells]))


def errors(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="As a message ends: BudgetExceeded.")] = "",
) -> None:
    """Say what an error means and what to do about it; without a name, list them all.

    Example: thebes errors BudgetExceeded
    """
    known = {entry.name: entry for entry in catalogue()}
    if not name:
        width = max(map(len, known))
        for entry in known.values():
            typer.echo(f"{entry.name:<{width}}  {entry.happened}")
        return
    found = known.get(name) or known.get(f"site-{name}") or known.get(f"flaw-{name}")
    if found is None:
        meant = did_you_mean(name, known)
        raise Mistake("NAME", f"there is no error {name[:60]!r}{meant or '; thebes errors lists all'}")
    family = f"{_FAMILIES[found.family]} " if found.family in _FAMILIES else ""
    typer.echo(f"{found.name}: {family}{found.happened}\nWhat to do: {found.advice}")


def _plain(cell: str) -> str:
    """Leave out what is for a browser only."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", cell).strip()

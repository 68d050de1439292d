"""The pieces of the page's tables: rows of an outcome, numbers in words, cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.experiment import ends
from papers.outcome import Outcome, Row

Kept = Mapping[str, Outcome]

NEARLY, PARTLY = 0.9, 0.6  #: of what there is to learn


def one(outcome: Outcome, panel: str, series: str, at: float | str | None) -> Row | None:
    curve = [row for row in outcome.rows if (row.panel, row.series) == (panel, series)]
    rows = ends(curve) if at is None else [row for row in curve if row.at == at]
    return rows[0] if rows else None


def places_of(rows: Sequence[Row]) -> list[float]:
    return sorted({row.at for row in rows if isinstance(row.at, float | int)})


def figure(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%".replace("-", "−")


def row_of(cells: Sequence[str]) -> str:
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def plain(words: str) -> str:
    return words.replace("|", "\\|")


def listed(words: Sequence[str]) -> str:
    return " or ".join(words)


def spread_of(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1g}"


def ours_of(row: Row) -> str:
    apart = row.spread or 0.0
    return figure(row.ours) + (f" ± {spread_of(apart)}" if apart > 1e-9 * abs(row.ours) else "")

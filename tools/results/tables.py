"""An outcome's rows as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from papers.outcome import Outcome, Row
from tools.results.cells import figure, ours_of, places_of, row_of


def table(outcome: Outcome, rows: Sequence[Row]) -> Iterator[str]:
    """One table, or one for each panel where these lie along axes of their own."""
    panels = {row.panel: [one for one in rows if one.panel == row.panel] for row in rows}
    if len({tuple(places_of(of_it)) for of_it in panels.values()}) == 1:
        yield from _table(outcome, [row for of_it in panels.values() for row in of_it])
        return
    for number, (panel, of_it) in enumerate(panels.items()):
        yield f"{'' if not number else chr(10)}*{panel}*\n"
        yield from _table(outcome, [replace(row, panel="") for row in of_it])


def _table(outcome: Outcome, rows: Sequence[Row]) -> Iterator[str]:
    """A column for each place along the axis where that is all that differs; else a line for each row."""
    series = {(row.panel, row.series): [one for one in rows if _curve(one) == _curve(row)] for row in rows}
    places = places_of(rows)
    pivots = len(places) > 1 and all(_pivots(outcome, curve) for curve in series.values())
    every = _pivoted(series, places) if pivots else _listing(outcome, rows)
    shown = {name: cells for name, cells in every.items() if any(cells)}
    heads = ["" if name in ("panel", "series") else name for name in shown]
    if pivots and "series" in shown:
        heads[list(shown).index("series")] = f"{outcome.across}:"
    yield row_of(heads)
    yield row_of(["---" if name in ("panel", "series") else "---:" for name in shown])
    before = ""
    for cells in zip(*shown.values(), strict=True):
        told = dict(zip(shown, cells, strict=True))
        panel = told.get("panel", "")
        yield row_of(["" if name == "panel" and panel == before else cell for name, cell in told.items()])
        before = panel


def _curve(row: Row) -> tuple[str, str]:
    return row.panel, row.series


def _pivots(outcome: Outcome, curve: Sequence[Row]) -> bool:
    """Nothing but its place and what was found differs along a curve."""
    same = len({row.ceiling for row in curve}) == 1
    paid = all(row.epsilon in (None, row.at, row.ours) for row in curve) or len({row.epsilon for row in curve}) == 1
    return same and paid and all(row.printed is None and isinstance(row.at, float | int) for row in curve)


def _pivoted(series: Mapping[tuple[str, str], Sequence[Row]], places: Sequence[float]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"panel": [panel for panel, _ in series], "series": [name for _, name in series]}
    for place in places:
        at = [next((row for row in curve if row.at == place), None) for curve in series.values()]
        columns[figure(place)] = ["" if row is None else ours_of(row) for row in at]
    firsts = [curve[0] for curve in series.values()]
    columns["not private"] = [figure(row.ceiling) for row in firsts]
    if not all(row.epsilon in (None, row.at, row.ours) for curve in series.values() for row in curve):
        columns["epsilon"] = [figure(row.epsilon) for row in firsts]
    return columns


def _listing(outcome: Outcome, rows: Sequence[Row]) -> dict[str, list[str]]:
    columns = {
        "panel": [row.panel for row in rows],
        "series": [row.series for row in rows],
        outcome.across or " ": [row.at if isinstance(row.at, str) else figure(row.at) for row in rows],
        "printed": [figure(row.printed) for row in rows],
        "ours": [ours_of(row) for row in rows],
        "not private": [figure(row.ceiling) for row in rows],
    }
    if outcome.across != "epsilon" and any(row.epsilon not in (None, row.ours) for row in rows):
        columns["epsilon"] = [figure(row.epsilon) for row in rows]
    return columns

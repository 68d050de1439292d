"""The report of the experiments: one page that needs no server and loads nothing, a picture and a table of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from papers.outcome import Outcome, Row
from papers.registry import experiments
from thebes import __version__, web
from thebes.privacy.figures import spaced
from thebes.tasks import drawings
from thebes.web import charts

_HERE = Path(__file__).parent
_STYLE = Path(web.__file__).parent / "static" / "thebes.css"
MOST_CURVES = 8  #: in one picture; the rest is in the table


def page(outcomes: Sequence[Outcome]) -> str:
    """The page as HTML."""
    templates = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["figure"] = spaced
    style = Markup(_STYLE.read_text(encoding="utf-8"))  # noqa: S704, our own file
    told = [_told(outcome) for outcome in outcomes]
    return templates.get_template("page.html").render(told=told, style=style, version=__version__)


def _told(outcome: Outcome) -> dict[str, Any]:
    """Return what the page says of one: the rows in short, and the sentence where we differ before the other notes."""
    known = experiments().get(outcome.name)
    rows = outcome.rows if known is None else known.told(outcome)
    first = 0 if known is None or known.headline is None else known.headline.differs
    notes = list(outcome.notes)
    differs = notes.pop(min(first, len(notes) - 1)) if notes else ""
    every = outcome.table() if len(rows) < len(outcome.rows) else None
    shown = {"pictures": pictures(outcome), "columns": outcome.table(rows), "every": every}
    return {"outcome": outcome, "differs": differs, "notes": notes, **shown}


def pictures(outcome: Outcome) -> list[tuple[str, Markup]]:
    """(panel, picture) for each panel: curves over a number, else bars; bars also where there is one place only."""
    panels: dict[str, list[Row]] = {}
    for row in outcome.rows:
        panels.setdefault(row.panel, []).append(row)
    return [(panel, _picture(outcome, panel, rows)) for panel, rows in panels.items()]


def _picture(outcome: Outcome, panel: str, rows: Sequence[Row]) -> Markup:
    title = outcome.of(panel)
    points = [(float(row.at), row.ours, row.spread) for row in rows if isinstance(row.at, (int, float))]
    if points and outcome.picture == "points":
        return charts.points(points, title=f"{title}, by {outcome.across}", across=outcome.across)
    series: dict[str, list[charts.Point]] = {}
    for row in rows:
        if isinstance(row.at, (int, float)):
            series.setdefault(row.series, []).append((float(row.at), row.ours, row.spread))
    if series and len({row.at for row in rows}) > 1:
        shown = dict(list(series.items())[:MOST_CURVES])
        return charts.curves(shown, title=f"{title}, by {outcome.across}", across=outcome.across)
    names = [f"{row.at}: {row.series}" if isinstance(row.at, str) else row.series for row in rows]
    spread = {name: row.spread for name, row in zip(names, rows, strict=True) if row.spread is not None}
    values = {name: row.ours for name, row in zip(names, rows, strict=True)}
    low, high = ({name: values[name] + side * apart for name, apart in spread.items()} for side in (-1, 1))
    return drawings.bars(values, title=title, low=low, high=high)

"""The pieces that results show themselves with in a notebook: HTML in which all text is escaped, with colours of its
own, since a notebook has no stylesheet of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape

from thebes.privacy.certificate import Certificate
from thebes.privacy.figures import figure
from thebes.privacy.plain_text import plain_text

MOST_ROWS = 200  #: of a table; a data frame has all of them

#: readable on a light and on a dark page: text and lines take the notebook's own colour
_STYLE = Markup("""<style>
.thebes svg { width: 100%; max-width: 27rem; height: auto; display: block; }
.thebes svg text { fill: currentColor; font: 13px system-ui, sans-serif; }
.thebes .bar, .thebes .dot { fill: #3b82c4; } .thebes .axis { stroke: currentColor; opacity: .5; }
.thebes .grid { stroke: currentColor; opacity: .15; } .thebes .error { stroke: #d9730d; stroke-width: 2.5; }
.thebes pre { white-space: pre-wrap; margin: .3em 0; } .thebes p { max-width: 60rem; margin: .3em 0; }
.thebes summary { cursor: pointer; } .thebes th, .thebes td { text-align: left !important; }
</style>""")


def shown(*pieces: Any) -> str:
    """Put pieces under each other; what is no Markup is text."""
    return str(Markup('<div class="thebes">{}{}</div>').format(_STYLE, Markup("").join(pieces)))


def certified(certificate: Certificate) -> Markup:
    """Put a certificate behind the line of its promise."""
    return Markup(certificate._repr_html_())  # noqa: S704 (it escapes what it shows)


def lines(written: Iterable[str]) -> Markup:
    """Write lines as they would stand in a terminal."""
    text = plain_text("\n".join(written))
    return Markup("<pre>{}</pre>").format(text) if text else Markup("")


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """Write a table, numbers with the digits that matter."""
    every = [[_cell(cell) for cell in row] for row in rows]
    heads = Markup("").join(Markup("<th>{}</th>").format(plain_text(str(name))) for name in head)
    body = Markup("").join(_row(row) for row in every[:MOST_ROWS])
    made = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(heads, body)
    more = len(every) - MOST_ROWS
    return made if more <= 0 else made + Markup("<p>… and {} rows more</p>").format(figure(more))


def folded(summary: str, *pieces: Any) -> Markup:
    """Put pieces behind a line that opens them."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, Markup("").join(pieces))


def _row(cells: Sequence[str]) -> Markup:
    return Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells))


def _cell(cell: Any) -> Markup:
    if cell is None or cell != cell:  # NaN: nothing is known
        return Markup("")
    return escape(figure(cell) if isinstance(cell, float) else plain_text(str(cell)))

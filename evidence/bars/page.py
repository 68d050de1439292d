"""The page of the documentation about error bars, written from what was kept: nobody types a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from evidence.bars.measured import EPSILONS, BarCell
from thebes.privacy.figures import figure

_HEAD = """\
# How often error bars hold, and how wide they are

*For whoever relies on an error bar.*

Every statistic that is answered with an error bar, drawn often through the code that answers it, with fixed seeds, over
the same rows. `make bars` draws it all again and fails where a bar holds less often than it says (luck explains it once
in a million runs) or is wider than is accepted; `make docs` writes this page from what was kept.

- **Held** is in how many of the draws a 95 % bar held every exact answer over the rows at hand; behind it is the upper
  end of what that may be by luck (Clopper-Pearson, 95 %). A draw without a bar is not wrong; *bars* says how many had
  one, where not all did.
- **Half** is half the width of the middle bar, and *errors* what 95 % of the errors lie within: how tight it is.
- What a bar is of, and what it is not, says [the requestor's page](requestor.md#what-the-error-bar-says).

"""


def bad(cells: Sequence[BarCell]) -> list[BarCell]:
    """List the cells that hold too rarely, or are too wide."""
    return [cell for cell in cells if cell.too_rarely(len(cells)) or cell.too_wide]


def line(cell: BarCell) -> str:
    """One cell in one line, for a terminal."""
    floor = "" if cell.floor is None else f", at most {_short(cell.floor)}"
    where = f"{cell.statistic}, {cell.way}, {cell.law}, n {cell.n}, epsilon {cell.epsilon:g}"
    held = f"held {cell.held / cell.draws:.3f} of {cell.draws}"
    return f"{where}: {held}, half {_short(cell.half)} (errors {_short(cell.errors)}{floor})"


def written(cells: Sequence[BarCell]) -> str:
    """The whole page."""
    return _HEAD + "\n".join(_tables(cells)) + "\n"


def _tables(cells: Sequence[BarCell]) -> Iterator[str]:
    worst = min(cells, key=lambda cell: cell.held / cell.draws)
    draws = [cell.draws for cell in cells]
    often = sum(cell.draws == max(draws) for cell in cells)
    yield f"{len(cells)} cells, {often} of {max(draws)} draws, the others of {min(draws)} or more. Least often held"
    yield f"{line(worst)}.\n"
    for statistic, of_one in groupby(cells, key=lambda cell: cell.statistic):
        yield f"## {statistic[0].upper()}{statistic[1:]}\n"
        for way, rows in groupby(of_one, key=lambda cell: cell.way):
            yield f"### {statistic[0].upper()}{statistic[1:]}: {way}\n"
            yield "| rows | epsilon " + " | epsilon ".join(f"{e:g}" for e in EPSILONS) + " |"
            yield "|---|" + "---|" * len(EPSILONS)
            for (law, n), same in groupby(rows, key=lambda cell: (cell.law, cell.n)):
                by = {cell.epsilon: cell for cell in same}
                told = (_told(by[e]) if e in by else "" for e in EPSILONS)
                yield f"| {law}, {n:,} | {' | '.join(told)} |"
            yield ""


def _told(cell: BarCell) -> str:
    shown = "" if cell.shown == cell.draws else f", bars {cell.shown / cell.draws:.0%}"
    if cell.half is None:
        return "no bar"
    held = f"{cell.held / cell.draws:.3f} ({cell.coverage_upto:.3f})"
    return f"held {held}{shown}; half {_short(cell.half)}, errors {_short(cell.errors)}"


def _short(number: float | None) -> str:
    return "none" if number is None else figure(number, 3)

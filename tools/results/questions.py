"""The cost of many questions to one table."""

from __future__ import annotations

from collections.abc import Iterator

from papers.experiment import ends
from papers.outcome import Outcome
from tools.results.cells import Kept, figure, listed, percent, row_of


def questions(kept: Kept) -> Iterator[str]:
    """Tell what many questions to one table cost, by how answers are used again."""
    names = {"smartcache-figure-10-1": "avocado prices", "smartcache-figure-10-2": "a bank's calls"}
    ways = {
        "none": "each answered anew",
        "exact": "the same question answered once (`--cache exact`)",
        "exact + Gaussian": "the same, Gaussian noise added up in rho",
        "smart": "answers out of made-up rows where a check finds them right (`--cache smart`)",
        "pmw": "answers out of a histogram that learns (`--cache pmw`)",
    }
    costs = {name: _costs(kept[name]) for name in names if name in kept}
    if not costs:
        return
    asked = {at for _, at in costs.values()}
    yield f"\n### What {listed(sorted(f'{at:,.0f}' for at in asked))} questions to one table cost\n"
    quick = " A quick run." if any(kept[name].quick for name in costs) else ""
    yield f"Epsilon of one row, and how much less than without memory; each answer within 5 % of the rows.{quick}\n"
    yield row_of(["", *(f"[{names[name]}](#{name})" for name in costs)])
    yield row_of(["---", *("---:" for _ in costs)])
    for way, words in ways.items():
        cells = []
        for paid, _ in costs.values():
            less = "" if way == "none" else f"<br>{percent(paid[way] / paid['none'] - 1)}"
            cells.append(f"{figure(paid[way])}{less}")
        yield row_of([words, *cells])


def _costs(outcome: Outcome) -> tuple[dict[str, float], float]:
    paid = [row for row in ends(outcome.rows) if row.panel == next(r.panel for r in outcome.rows)]
    return {row.series: row.ours for row in paid}, float(max(row.at for row in paid if isinstance(row.at, float | int)))

"""The errors that somebody may expect who is about to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.outcome import Outcome, Row
from papers.tiresias.table_people import CHANCE, MEAN, SHARE, TRUSTED, UNTRUSTED
from tools.results.cells import NEARLY, PARTLY, Kept, figure, one, places_of, row_of

#: what is asked of more and more people, in words, and who is trusted
PEOPLE = "tiresias-people"

WANTED = {
    SHARE: "a share: percentage points off",
    MEAN: "a mean age, 17 to 90: years off",
    CHANCE: "a forecast: AUC (.5 is a coin)",
}

TRUSTS = {TRUSTED: "somebody", UNTRUSTED: "nobody"}


def expected(kept: Kept, epsilons: Sequence[float] = (1.0, 0.1)) -> Iterator[str]:
    """Tell what somebody may expect who is about to ask: by how many people, and for which epsilon."""
    if PEOPLE not in kept:
        return
    outcome = kept[PEOPLE]
    sizes = places_of(outcome.rows)
    quick = " A quick run." if outcome.quick else ""
    yield "\n## What to expect, by how many people answer\n"
    yield f"Who earns over 50,000, how old people are, and who will: asked of a census.{quick} [More](#{PEOPLE})\n"
    yield row_of(["wanted", "trusted", "epsilon", *(f"{size:,.0f} people" for size in sizes), "not private"])
    yield row_of(["---", "---", *("---:" for _ in sizes), "---:", "---:"])
    before = ""
    for panel, words in WANTED.items():
        for trust, who in TRUSTS.items():
            for epsilon in epsilons:
                rows = [one(outcome, panel, f"{trust}, epsilon {epsilon:g}", size) for size in sizes]
                cells = ["" if row is None else _told_of(panel, row) for row in rows]
                best = next((row.ceiling for row in reversed(rows) if row is not None), None)
                shown = [words if words != before else "", who, f"{epsilon:g}", *cells, figure(best)]
                yield row_of(shown)
                before = words
    yield (
        f"\n**Bold** is a forecast with at least {100 * NEARLY:.0f} % of what as many people teach without noise, in "
        f"(brackets) one with less than {100 * PARTLY:.0f} %; errors are means over many draws."
    )
    if len(epsilons) > 1:
        yield from _so(outcome, sizes)


def _told_of(panel: str, row: Row) -> str:
    """An error as it is; a score with how much of what there is to learn that is."""
    if panel != CHANCE or row.ceiling is None:
        return f"{row.ours:.2g}"
    share = (row.ours - 0.5) / (row.ceiling - 0.5)
    told = f"{row.ours:.2f}"
    return f"**{told}**" if share >= NEARLY else told if share >= PARTLY else f"({told})"


def _so(outcome: Outcome, sizes: Sequence[float]) -> Iterator[str]:
    """The two laws behind the errors, by the numbers that show them."""
    few, more, many = (
        one(outcome, SHARE, f"{trust}, epsilon {epsilon:g}", size)
        for trust, epsilon, size in ((TRUSTED, 1.0, 1000.0), (UNTRUSTED, 1.0, 1000.0), (UNTRUSTED, 0.1, max(sizes)))
    )
    if few is not None and more is not None and many is not None:
        yield (
            f"A thousand people tell a share to {few.ours:.2g} points where somebody adds the noise for all of them, "
            f"and to {more.ours:.2g} where everybody adds their own. A tenth of epsilon makes errors ten times as "
            "large: as good takes ten times as many people in the one case, a hundred times in the other. At .1, where "
            f"nobody is trusted, {many.at:,.0f} people are still {many.ours:.2g} points off."
        )

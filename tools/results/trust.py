"""The errors of the same questions, by whom people or institutions must trust."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from papers.outcome import Outcome
from papers.tiresias.table_people import CHANCE, EPSILONS, MEAN, SHARE
from papers.tiresias.table_trust import (
    ASKED,
    COORDINATOR,
    GRADIENT,
    MEDIAN,
    SITE,
    SITES_MEAN,
    SITES_SHARE,
)
from thebes.tasks.trust_models import MIXED, NOBODY, SPLIT, TRUSTED
from tools.results.cells import Kept, figure, one, places_of, row_of

TRUST = "tiresias-trust"

WANTED = {
    SHARE: "a share: percentage points off",
    MEAN: "a mean age: years off",
    MEDIAN: "a median age: years off",
    CHANCE: "a forecast: AUC (.5 is a coin)",
    GRADIENT: "a gradient of 16 weights: error over its length",
    SITES_SHARE: "a share at 15 sites: points off",
    SITES_MEAN: "a mean age at 15 sites: years off",
}
WHO = {
    NOBODY: "nobody",
    MIXED: "nobody, mixed",
    SPLIT: "one of two servers",
    TRUSTED: "one server",
    SITE: "each site, with its own rows",
    COORDINATOR: "the coordinator, with exact totals",
}


def by_trust(kept: Kept) -> Iterator[str]:
    """Tell what the same promise costs in accuracy, by who has to keep their word for it."""
    if TRUST not in kept:
        return
    outcome = kept[TRUST]
    sizes = places_of(outcome.rows)
    quick = " A quick run." if outcome.quick else ""
    yield "\n## How far off, by trust\n"
    yield (
        "The same questions to a census with the same promise, by [whom people must trust](trust.md). Mixed answers "
        f"promise it about all of them together; people pay the local epsilon in brackets.{quick} [More](#{TRUST})\n"
    )
    heads = [f"epsilon {epsilon:g}: {size:,.0f}" for epsilon in sorted(EPSILONS, reverse=True) for size in sizes]
    yield row_of(["wanted", "trusted", *heads])
    yield row_of(["---", "---", *("---:" for _ in heads)])
    for panel, words in WANTED.items():
        for place, trust in enumerate(ASKED[panel]):
            cells = _cells(outcome, panel, trust, sizes)
            yield row_of([words if not place else "", WHO[trust], *cells])
    yield (
        "\nErrors are means over twelve draws or fewer, so good to about a third. Where nobody is trusted with sums, "
        "models learn from reports; two servers open sums alone, which gives the gradient of one step; nobody shows "
        "one server a gradient.\n"
    )


def _cells(outcome: Outcome, panel: str, trust: str, sizes: Sequence[float]) -> Iterator[str]:
    for epsilon in sorted(EPSILONS, reverse=True):
        for size in sizes:
            row = one(outcome, panel, f"{trust}, epsilon {epsilon:g}", size)
            paid = f" ({figure(row.epsilon)})" if row is not None and trust == MIXED else ""
            yield "" if row is None else f"{row.ours:.2g}{paid}"

"""Draw and Discard, figure 3: other ways to keep the model, beside draw and discard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from papers.draw_discard import PAPER
from papers.draw_discard.alternatives import ARCHITECTURES, DrawAndDiscard
from papers.draw_discard.digits import DOCUMENT, EACH, Digits, digits
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

PEOPLE, QUICK_PEOPLE = 6000, 1000
LOOKS, QUICK_LOOKS = (1, 2, 4, 7, 10, 14, 20), (1, 2, 4, 7)
K = 20
ALONE = "k = 1 (at a server)"


def find(quick: bool, seeds: Sequence[int]) -> Found:
    held, looks = digits(QUICK_PEOPLE if quick else PEOPLE), QUICK_LOOKS if quick else LOOKS
    rows = []
    alone = held.curves({**DOCUMENT, "instances": 1}, DrawAndDiscard, seeds, looks)
    for series, curves in ((ALONE, alone), *compared(held, {"instances": K}, seeds, looks)):
        rows += [Row.over(scores, series=series, at=look) for look, scores in zip(looks, curves, strict=True)]
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes(quick, QUICK_PEOPLE, QUICK_LOOKS[-1]))


def notes(quick: bool, people: int, passes: int) -> tuple[str, ...]:
    told: tuple[str, ...] = (
        "The figure shows curves without numbers, so none are printed here.",
        f"No noise: nothing here is private. Gradients are averaged over a person's {EACH} digits.",
        "Every architecture hears the same owners: the kind's encoding, gradient and clipping. The instances start "
        "spread as the paper has it, a single model starts at zero.",
    )
    if quick:
        told += (f"Quick: {people:,} people and {passes} passes, where the paper has 6,000 and 20.",)
    return told


def compared(
    held: Digits, more: Mapping[str, Any], seeds: Sequence[int], looks: Sequence[int]
) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """Yield (architecture, for each look the accuracy of every seed)."""
    for name, made in ARCHITECTURES.items():
        yield name, held.curves({**DOCUMENT, **more}, made, seeds, looks)


EXPERIMENT = Experiment(
    name="draw-discard-3",
    paper=PAPER,
    place="figure 3",
    shows="What makes k instances slow is that each hears one update in k, not that updates are discarded; averaging "
    "before overwriting is slower still.",
    measure="accuracy on held-out digits",
    across="passes over the people",
    find=find,
    seeds=2,
    quick_seeds=1,
    better="more",
    headline=Headline(at=(1, 7, 20), drawn=("*",)),
)

"""Draw and Discard, figure 4: other ways to keep the model, by the number of instances, at a tenth of the rate."""

from __future__ import annotations

from collections.abc import Sequence

from papers.draw_discard import PAPER, figure_3
from papers.draw_discard.alternatives import DrawAndDiscard
from papers.draw_discard.digits import DOCUMENT, digits
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

PEOPLE, QUICK_PEOPLE = 6000, 600
PASSES, QUICK_PASSES = 20, 5
RATE = 0.0001


def find(quick: bool, seeds: Sequence[int]) -> Found:
    held, passes = digits(QUICK_PEOPLE if quick else PEOPLE), QUICK_PASSES if quick else PASSES
    same = {"learning_rate": RATE}
    (alone,) = held.curves({**DOCUMENT, **same, "instances": 1}, DrawAndDiscard, seeds, [passes])
    rows = []
    for k in (5, 20) if quick else (5, 10, 20, 50):
        rows.append(Row.over(alone, series=figure_3.ALONE, at=k))
        for series, (scores,) in figure_3.compared(held, {**same, "instances": k}, seeds, [passes]):
            rows.append(Row.over(scores, series=series, at=k))
    notes = (
        *figure_3.notes(quick, QUICK_PEOPLE, QUICK_PASSES),
        f"Accuracy after {passes} passes at a rate of {RATE:g}, a tenth of the other figures'.",
    )
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes)


EXPERIMENT = Experiment(
    name="draw-discard-4",
    paper=PAPER,
    place="figure 4",
    shows="The architectures keep their order for every k; at a rate that is too small k costs about twice as much.",
    measure="accuracy on held-out digits",
    across="instances",
    find=find,
    seeds=1,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("",), drawn=("*",)),
)

"""The figure of what a model is worth, bought from rows or people that it was not made from, beside one guess for all.

What must stay true: of models that are no better than guessing at most `CLAIM` are called better, whatever the rows;
an interval holds the figure over everybody in at least `LEVEL` of all cases. Rows count as drawn one by one from
everybody, and a coin that looked at none of them said which are tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import quality
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.additive import Hiding
from thebes.privacy.mechanisms.summed_noise import parts_of, together

LEVEL = 0.95  #: of intervals
CLAIM = 0.01  #: how often a model that is no better than guessing may be called better
NO_BETTER = 0.05  #: how often one that gains more than `NEAR` may be called no better
NEAR = 0.05  #: gaining less than this on guessing is being no better

NOT_CHECKED = "what the model is worth was not checked"


class Worth(StrEnum):
    """The verdict on a model. The last two warn."""

    BETTER = "better than guessing"
    NO_BETTER = "no better than guessing"
    UNTOLD = "cannot be told from guessing"

    @property
    def warns(self) -> bool:
        """Return whether whoever uses the model must be warned."""
        return self is not Worth.BETTER


#: by metric: what the model reaches, what guessing does, and whether both are shares
_WORDS = {
    "accuracy": ("it gets {} right", "the most frequent class alone {}", True),
    "auc": ("the area under the curve of its scores is {}", "that of guessing {}", False),
    "gain": ("it gets {} more right than one guess for everybody", "", True),
    "squared gain": ("its squared error is less than that of one guess by {} of the squared range", "", True),
    "r2": ("its R2, which is at least -1, is {}", "that of the best single guess {}", False),
    "mse": ("its mean squared error is {}", "that of the best single guess {}", False),
    "mae": ("its mean absolute error is {}", "that of the best single guess {}", False),
    "log_loss": ("its mean log loss is {}", "that of the best single guess {}", False),
}


@dataclass(frozen=True, slots=True)
class Quality:
    """The figure of one model. `metric` names what `value` and `interval` are: accuracy, auc, mse, r2, or gain (the
    share told right less that of the guess). `guessing` is what one guess for everybody reaches by the same metric.

    Where guessing was not bought both that and the verdict are None: nothing is said of it.

    `people` counts whom or what it was tested on, where private as the noise counted them; `share` is their part of
    all; `epsilon` what the test cost each of them; `of` says who they are, for example "rows that it was not made
    from".
    """

    metric: str
    value: float
    interval: Interval
    guessing: float | None
    verdict: Worth | None
    people: int
    share: float | None
    epsilon: float
    of: str

    @property
    def warns(self) -> bool:
        """Return whether whoever uses the model must be warned."""
        return self.verdict is not None and self.verdict.warns

    @property
    def sentence(self) -> str:
        """One sentence in plain words."""
        reached, guessed, shares = _WORDS.get(self.metric, (f"its {self.metric} is {{}}", "that of guessing {}", False))

        def told(end: Any) -> str:
            number = float(end)
            return f"{figure(100 * number, 3)} %" if shares else figure(number, 3)

        part = "" if self.share is None else f" ({figure(100 * self.share, 3)} % of all)"
        bar = f"{self.interval.level:.0%} interval {told(self.interval.low)} to {told(self.interval.high)}"
        said = f"on {figure(self.people)} {self.of}{part} {reached.format(told(self.value))} ({bar})"
        said += f", {guessed.format(told(self.guessing))}" if guessed and self.guessing is not None else ""
        return f"the model {'was tested' if self.verdict is None else _SAID[self.verdict]}: {said}"

    @property
    def line(self) -> str:
        """The sentence as a release says it: a warning is called one."""
        return f"warning: {self.sentence}" if self.warns else self.sentence

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "value": self.value,
            "interval": self.interval.as_json(),
            "guessing": self.guessing,
            "verdict": None if self.verdict is None else str(self.verdict),
            "people": self.people,
            "share": self.share,
            "epsilon": self.epsilon,
            "of": self.of,
        }

    @classmethod
    def of_json(cls, body: Mapping[str, Any]) -> Self:
        """Read what `as_json` wrote; anything else is a Mistake."""
        try:
            bar = body["interval"]
            return cls(
                metric=str(body["metric"]),
                value=float(body["value"]),
                interval=Interval(float(bar["level"]), float(bar["low"]), float(bar["high"])),
                guessing=None if body["guessing"] is None else float(body["guessing"]),
                verdict=None if body["verdict"] is None else Worth(body["verdict"]),
                people=int(body["people"]),
                share=None if body["share"] is None else float(body["share"]),
                epsilon=float(body["epsilon"]),
                of=str(body["of"]),
            )
        except (LookupError, TypeError, ValueError, OverflowError):
            raise Mistake("quality", "is no figure of what a model is worth") from None


_SAID = {
    Worth.BETTER: "is better than guessing",
    Worth.NO_BETTER: "is no better than guessing",
    Worth.UNTOLD: "cannot be told from guessing",
}


def verdict_of(low: float, high: float) -> Worth:
    """Judge by where a model's gain on guessing lies: above `low` but for odds of `CLAIM`, below `high` but for odds of
    `NO_BETTER`."""
    return Worth.BETTER if low > 0 else Worth.NO_BETTER if high < NEAR else Worth.UNTOLD


def of_table(table: ArrayLike, noise: Hiding, *, share: float | None, epsilon: float, of: str) -> Quality:
    """Read a classifier's figure off the noisy table class x (right, wrong) of rows that it was not made from. Each
    cell has independent `noise`; a row is in one cell, or in none where it has no class.

    *Interval.* With r right and w wrong among the rows, accuracy over everybody is above the exact binomial end of
    (r, w), but for half of the chance of failing (`quality.binomial`); that end grows with r and falls with w, so r's
    least and w's most, each wrong with a quarter of that chance by the law of a sum of K noises, may stand in. The same
    above, with r's most and w's least. By the union bound both sides together fail in 1 - `LEVEL` of cases at most.
    The number of rows is not used, so it may be private.

    *Better.* Guessing class c for everybody is right where the label is c. So over one row the model gains 1 on it
    where it is right and the label is another (`plus`, K - 1 cells), loses 1 where it is wrong and the label is c
    (`minus`, one cell), and else nothing. Of rows with either, the number of those that gain is binomial; that half of
    them or fewer gain over everybody is ruled out, but for half of `CLAIM`, if the exact lower end passes 1/2 (the test
    of McNemar 1947). It grows with plus and falls with minus, so the noise's ends stand in, a quarter of `CLAIM` each.
    The model must pass against every c. If it is no better than guessing then it gains nothing on one of them, and
    must have passed that one wrongly; so nothing is paid for there being K.

    *No better.* The same gain is at most (most of plus / rows) - (least of minus / rows); this must be below `NEAR` for
    one c, which may be any: `NO_BETTER` / K is what each may fail with, half of it for the two binomial ends, and the
    other half for four ends of noise.
    """
    cells = np.asarray(table, dtype=np.float64).reshape(-1, 2)
    if len(cells) < 2 or not np.isfinite(cells).all():
        raise Mistake("table", "must have a row of two finite numbers for each of at least two classes")
    right, wrong = cells.sum(axis=0).tolist()
    rows = max(right + wrong, 1.0)
    return Quality(
        metric="accuracy",
        value=min(max(right / rows, 0.0), 1.0),
        interval=_accuracy(cells, noise),
        guessing=float(np.clip(cells.sum(axis=1).max() / rows, 1 / len(cells), 1.0)),
        verdict=verdict_of(_least_gain(cells, noise), _most_gain(cells, noise)),
        people=max(0, round(right + wrong)),
        share=share,
        epsilon=epsilon,
        of=of,
    )


def ends(value: float, noise: Hiding, cells: int, failing: float) -> tuple[float, float]:
    """(least, most) that a sum of so many cells may be, read with their noise; each fails with odds of `failing`, the
    noise being symmetric."""
    width = together(parts_of(noise) * cells).width(1 - 2 * failing)
    return max(0.0, value - width), max(0.0, value + width)


def _accuracy(cells: Any, noise: Hiding) -> Interval:
    right, wrong = cells.sum(axis=0).tolist()
    side = (1 - LEVEL) / 2
    least_right, most_right = ends(right, noise, len(cells), side / 4)
    least_wrong, most_wrong = ends(wrong, noise, len(cells), side / 4)
    low = 1 - quality.binomial(most_wrong, least_right, side / 2)
    high = 1 - quality.binomial_below(least_wrong, most_right, side / 2)
    return Interval(LEVEL, low, high)


def _least_gain(cells: Any, noise: Hiding) -> float:
    """By how much more than half the rows that tell the model from a guess speak for it, against the best of them."""
    gains = []
    for right, wrong in cells.tolist():
        plus, _ = ends(cells[:, 0].sum() - right, noise, len(cells) - 1, CLAIM / 4)
        _, minus = ends(wrong, noise, 1, CLAIM / 4)
        gains.append(quality.binomial_below(plus, minus, CLAIM / 2) - 0.5)
    return float(min(gains))


def _most_gain(cells: Any, noise: Hiding) -> float:
    total, failing, gains = float(cells.sum()), NO_BETTER / len(cells), []
    for right, wrong in cells.tolist():
        plus = float(cells[:, 0].sum()) - right
        size = len(cells) - 1
        _, most_plus = ends(plus, noise, size, failing / 8)
        least_rest, _ = ends(total - plus, noise, 2 * len(cells) - size, failing / 8)
        least_minus, _ = ends(wrong, noise, 1, failing / 8)
        _, most_rest = ends(total - wrong, noise, 2 * len(cells) - 1, failing / 8)
        plus_share = quality.binomial(most_plus, least_rest, failing / 4)
        gains.append(plus_share - quality.binomial_below(least_minus, most_rest, failing / 4))
    return min(gains)

"""Scenes: tasks that show a kind at work on made-up people or hospitals, each held against the truth.

A kind's folder holds its own in `scene.py`: `scenes(crowd)`, or `scenes(hospitals)` where institutions answer; `thebes
demo` plays them. What must stay true: there is a scene of every kind; a model is `ok` only where it beats a guess over
rows that it did not learn from, by more than luck explains; and honest noise fails a scene less than once in a million
runs. A statistic fails beyond `WIDENED` times its bar: for Laplace noise that is once in exp(27), for normal noise more
than 17 standard deviations. Of a model no size of luck is that small, so what so few people taught too little is said,
and fails nothing: only that no answer comes fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.tasks.beside_guess import of_labels
from thebes.tasks.release import Release

GAINED = 0.3  #: the least share of the way from one guess for everybody to a model without noise
WIDENED = 9.0  #: so many times its 95 % interval's half width is out of reach of honest noise, of whole numbers too

Patients = Mapping[str, NDArray[Any]]
Visits = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class MadeUpPeople:
    """The made-up people that scenes are played with. A small crowd pays `sharp` times as much for the same
    sharpness; `sites` are those that they visit. `helper` names the institution that runs a second server, if any."""

    sharp: float
    sites: Sequence[str]
    helper: str | None = None


@dataclass(frozen=True)
class MadeUpHospitals:
    """The made-up hospitals that scenes are played with: what their data set and the first one's stream are called,
    who lets exact totals out and who does not, every visit, and other patients and visits of the same sort that no site
    has."""

    dataset: str
    stream: str
    lenient: Sequence[str]
    strict: str | None
    visits: Visits
    other_patients: Patients
    other_visits: Visits


@dataclass(frozen=True)
class SceneVerdict:
    """`value` beside what the same people's rows give without noise; `answer` is what a person would call it. What is
    not `ok` has failed, but for a model, which then tells no more than a guess. What is `ok` may lie outside its error
    bar, as one in twenty does."""

    true: float
    value: float
    ok: bool
    interval: dict[str, Any] | None = None
    answer: str | None = None
    guessing: float | None = None  #: what one guess for everybody would score; None where no model is judged

    @property
    def word(self) -> str:
        """Say in one word how it came out."""
        if not self.ok:
            return "FAILED" if self.guessing is None else "guess"
        return "outside" if self.missed else "ok"

    @property
    def missed(self) -> bool:
        """True where the error bar does not hold the truth."""
        bar = self.interval
        return bar is not None and not bar["low"] <= self.true <= bar["high"]


@dataclass(frozen=True)
class Scene:
    """One task. `judge` sees the release, the rows of those who contributed, and those of others, who
    were not asked. `metric` names what a
    model is measured by. `few`: each contribution is slow, or few may give one, so few people are asked."""

    name: str
    document: dict[str, Any]
    judge: Callable[[Release, Rows, Rows], SceneVerdict]
    metric: str | None = None
    few: bool = False
    left_out: str = ""  #: why it cannot be played on this machine; nothing where it can


@dataclass(frozen=True)
class SiteScene:
    """One task. `judge` sees the release and the patients of the sites that answered. `missing` are those that must be
    named as such."""

    name: str
    document: dict[str, Any]
    judge: Callable[[Release, Patients], SceneVerdict]
    metric: str | None = None
    missing: tuple[str, ...] = ()


def column(rows: Rows, name: str | None = None) -> Any:
    """Return a column of these people's first rows; the first one where none is named."""
    columns = rows.first().columns
    found = columns[name] if name is not None else next(iter(columns.values()))
    return found if found.dtype.kind == "O" and isinstance(found[0], str) else np.asarray(found, dtype=float)


def table(rows: Rows, names: Sequence[str]) -> Any:
    """Return several columns side by side."""
    return np.column_stack([column(rows, name) for name in names])


def beside(true: float, value: float, bar: Mapping[str, Any] | None, answer: str | None = None) -> SceneVerdict:
    """Judge whether the truth lies in reach of the error bar; without one nothing shows that it does."""
    if bar is None:
        return SceneVerdict(true, value, ok=False, answer=answer)
    middle, half = (bar["high"] + bar["low"]) / 2, (bar["high"] - bar["low"]) / 2
    return SceneVerdict(true, value, abs(true - middle) <= WIDENED * half, dict(bar), answer)


def told_right(true: float, said: Any, told: Any) -> SceneVerdict:
    """Judge which labels of others a model tells right. So few people teach it little, by chance nothing at all: that
    the answer came is what must work, and what it is worth is said."""
    found = of_labels("", said, told, aside=True)
    gained = found.beyond and far(true, found.reached, found.guessing)
    words = f"gets {found.reached:.0%} right, and one guess for everybody {found.guessing:.0%}"
    answer = None if gained else poor(words, found.reached > found.guessing)
    return SceneVerdict(true, found.reached, gained, answer=answer, guessing=found.guessing)


def far(true: float, value: float, guessed: float) -> bool:
    """Return whether a score is above a guess's, and as far as may be asked where a model without noise scores
    `true`."""
    return value > guessed and value - guessed >= GAINED * (true - guessed)


def poor(words: str, any_better: bool) -> str:
    """Say of a model that is not shown to be better how it does beside guessing."""
    return f"{'hardly' if any_better else 'no'} better than guessing: it {words}"


def beside_regression(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """Judge whose y a model of x0 and x1 tells right, beside a regression without noise."""
    from sklearn.linear_model import LogisticRegression

    inputs = ("x0", "x1")
    rows, told = table(others, inputs), column(others, "y")
    label = column(mine, "y")
    exact = LogisticRegression().fit(table(mine, inputs), label) if len(set(label.tolist())) > 1 else None
    true = float(np.mean((np.full(len(told), label[0]) if exact is None else exact.predict(rows)) == told))
    return told_right(true, np.asarray(release.model.predict(rows), dtype=float), told)


def classifier(
    inputs_of: Callable[[Patients], Patients], others: Patients
) -> Callable[[Release, Patients], SceneVerdict]:
    """Return a judge of which of the others the model tells right, between guessing alike for everybody and a model
    without noise."""

    def judge(release: Release, patients: Patients) -> SceneVerdict:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        def table(rows: Patients) -> NDArray[Any]:
            return np.column_stack(list(inputs_of(rows).values()))

        told = others["diabetes"]
        exact = make_pipeline(StandardScaler(), LogisticRegression()).fit(table(patients), patients["diabetes"])
        said = release.model.predict(inputs_of(others))
        return told_right(float(exact.score(table(others), told)), said, told)

    return judge

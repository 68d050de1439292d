"""The answer: a value, an error bar, a certificate. Stored before it is served and served again for nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thebes.data.frame import FrameSource
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Interval
from thebes.privacy.model_quality import NOT_CHECKED, Quality
from thebes.privacy.plain_text import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from thebes.tasks.model_card import ModelCard
    from thebes.tasks.release_picture import Point

#: the levels at which error bars are kept
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
#: beside these where an answer has several numbers: so surely each must hold for many to hold at once (union bound)
AT_ONCE = (0.999, 0.9999)
LEVEL = 0.95

#: of what an interval is, where nothing else is said
OF_WHAT = (
    "The interval is about the answer that the same contributions, cut to their bounds, would give without noise. It "
    "does not cover that people who took part may differ from others."
)
OF_EACH = (
    "Each interval is about one answer, as the same contributions would give it without noise. Among many intervals "
    "some miss."
)
#: why a model has none
OF_MODEL = (
    "No interval, because the answer is a model. Its quality says how much of what it predicts is right, with an "
    "interval, if people or rows were kept aside to test it."
)

#: by whether a model was shown to be better than guessing
_SHOWN = {
    True: "luck does not explain that, so it is better than guessing",
    False: "it is not shown to be better than guessing",
    None: "only rows kept aside can show that it is better than guessing",
}


class FittedModel(Protocol):
    """A model that was released: it predicts from tables by the names of their columns, from arrays by position."""

    @property
    def feature_names_in_(self) -> NDArray[Any]: ...

    def predict(self, rows: Any, /) -> NDArray[Any]: ...

    def predict_proba(self, rows: Any, /) -> NDArray[Any]:
        """Return one column for each class; a Mistake or an AttributeError of a model of numbers."""
        ...


class ReleaseOrigin(Protocol):
    """The coordinator that published a release."""

    def save(self, path: str | Path, *, certificate_only: bool = False) -> None: ...

    def verify(self, key: str | None = None) -> Any: ...


@dataclass(frozen=True)
class Release(FrameSource):
    """`value` is a number, {key: number}, a model, or rows, by kind. `extra` holds what a kind adds.

    Example:
        release.value, release.interval(0.95), release.certificate
        release.to_frame()  # value, low, high, level, sites; beside them the keys of groups, or the ends of bins
        release.plot()

    """

    value: Any
    certificate: Certificate
    intervals: Mapping[float, Interval] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    origin: ReleaseOrigin | None = field(default=None, compare=False, repr=False)

    #: why a release of this form has no interval, where nothing else is said
    no_interval: ClassVar[str] = "No interval: how far noise moves this answer is not known."

    #: which column of the table a picture shows where the answer is a model: the first of these that it has
    drawn: ClassVar[tuple[str, ...]] = ("value", "weight", "share")

    #: whether its model says how likely the second of two values is, instead of the likelier one
    odds: ClassVar[bool] = False

    #: how a kind's own release is made again from its JSON; kinds register here by `form`
    form: ClassVar[str] = "value"
    FORMS: ClassVar[dict[str, type[Release]]] = {}

    def __post_init__(self) -> None:
        """Let a kind read its value off what else it holds."""

    def __init_subclass__(cls) -> None:
        Release.FORMS[cls.form] = cls

    @property
    def answered(self) -> bool:
        """Return whether there is an answer, and not only a reason why there is none."""
        return self.value is not None

    @property
    def model(self) -> FittedModel:
        """The fitted model that was released; a Mistake where the answer is none."""
        raise Mistake("model", f"is not what was released: this is {type(self).__name__}, whose answer is its value")

    @property
    def explanation(self) -> str | None:
        """Return why there is no answer and what to do; None where there is one."""
        told = self.extra.get("explanation")
        return None if told is None else str(told)

    def published(self, origin: ReleaseOrigin) -> Self:
        """The same release, as one that was published there."""
        made = copy(self)
        object.__setattr__(made, "origin", origin)
        return made

    def save(self, path: str | Path, *, certificate_only: bool = False) -> None:
        """Save it as its coordinator published and signed it, to be checked later by `thebes verify`; its certificate
        alone with `certificate_only`."""
        self._origin().save(path, certificate_only=certificate_only)

    def verify(self, key: str | None = None) -> Any:
        """Check that its coordinator published this: `print` what comes back. BrokenRecord where something does not fit
        the coordinator's signed list, Unsigned where that has no release of the task. `key` is the fingerprint of the
        coordinator's key, as its operator says it; without, the key that was seen first counts."""
        return self._origin().verify(key)

    def _origin(self) -> ReleaseOrigin:
        if self.origin is None:
            raise Mistake("release", "is not signed: no coordinator published it, or it was changed since")
        return self.origin

    def __getstate__(self) -> dict[str, Any]:
        """Leave out where it was published: a copy, or what is read from a pickle, is not what was signed."""
        return {name: value for name, value in self.__dict__.items() if name != "origin"}

    def beside(self, **more: Any) -> Self:
        """The same release with more beside its value."""
        made = copy(self)
        object.__setattr__(made, "extra", {**self.extra, **more})
        return made

    @property
    def interval_note(self) -> str:
        """Say of what the interval is, or why there is none; nothing where there is no answer."""
        if "interval_note" in self.extra:
            return str(self.extra["interval_note"])
        if not self.answered:
            return ""
        if self.intervals:
            return OF_EACH if isinstance(self.value, Mapping) else OF_WHAT
        if self.certificate.guarantee == "none":
            return "No interval: this answer is exact, released without noise."
        return self.no_interval

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return where the exact answer lies with probability at least `level`, or None where no error bar is known:
        `interval_note` says of what it is, or why there is none.

        Only some levels are kept; the nearest one that is high enough is given, and says which it is.
        """
        if not self.intervals:
            return None
        enough = [kept for kept in self.intervals if kept >= level]
        if not 0 < level < 1 or not enough:
            raise Mistake("level", f"must lie between 0 and {max(self.intervals)}, the highest that is kept")
        return self.intervals[min(enough)]

    def card(self, document: Mapping[str, Any] | None = None) -> ModelCard:
        """Write the card of a model: data, price, what it is worth, certificate, intended use and limits, how it was
        made. `document` is the one it answers, which says for what it was asked; a Mistake where no model was
        released."""
        from thebes.tasks.model_card import card_of

        return card_of(self, document)

    @property
    def quality(self) -> Quality | None:
        """Return what the model was shown to be worth on rows or people that it was not made from; None where that was
        not checked, or where there is no model."""
        bought = self.extra.get("quality")
        return None if bought is None else Quality.of_json(bought)

    @property
    def unchecked(self) -> str:
        """Say that the model was not checked, and why, where that is told."""
        why = self.extra.get("quality_note")
        return NOT_CHECKED if why is None else f"{NOT_CHECKED}: {why}"

    def as_json(self) -> dict[str, Any]:
        main = self._main
        body = {
            "value": plain(self._in_json),
            "interval": None if main is None else self._bar(main),
            "certificate": plain(self.certificate.as_json()),
            "form": self.form,
        }
        if self.intervals:
            body["intervals"] = [self._bar(interval) for interval in self.intervals.values()]
        elif self.interval_note:
            body["interval_note"] = self.interval_note
        return {**body, **{name: plain(v) for name, v in self.extra.items()}}

    @property
    def _in_json(self) -> Any:
        return self.value

    @property
    def _main(self) -> Interval | None:
        return self.interval(min(LEVEL, max(self.intervals))) if self.intervals else None

    def _bar(self, interval: Interval) -> dict[str, Any]:
        """An interval as JSON: of {key: number} the ends are {key: number} too."""
        body = interval.as_json()
        if isinstance(self.value, Mapping):
            for end in ("low", "high"):
                ends = body[end] if isinstance(body[end], list) else [body[end]] * len(self.value)
                body[end] = {str(key): each for key, each in zip(self.value, ends, strict=True)}
        return body

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *self._beside(), *self.certificate.statements])

    def _lines(self) -> list[str]:
        """The value in words; a kind's own release says it differently."""
        bar = None if self._main is None else self._bar(self._main)
        if isinstance(self.value, Mapping):
            if not self.value:
                return ["no value was given by enough people to be shown"]
            low, high = (bar["low"], bar["high"]) if bar is not None else ({}, {})
            return [
                f"{key}: {_with_bar(number, bar, low.get(str(key)), high.get(str(key)))}"
                for key, number in self.value.items()
            ]
        if self.value is None:
            return ["no answer: " + str(self.extra.get("explanation", "nothing could be released"))]
        named = f", the {self.extra['value_of']}" if "value_of" in self.extra else ""
        return [_with_bar(self.value, bar, bar and bar["low"], bar and bar["high"]) + named]

    def _beside(self) -> list[str]:
        """Say what was measured beside the value."""
        lines = []
        if "quality" in self.extra:
            lines.append(self.unchecked if self.quality is None else self.quality.line)
        if self.interval_note:
            lines.append(self.interval_note)
        if "missing" in self.extra:
            lines.append(f"without a value: {figure(self.extra['missing']['value'])}")
        if "diagnostics" in self.extra:
            counts = ", ".join(f"{name} {figure(number)}" for name, number in self.extra["diagnostics"].items())
            lines.append(f"featurizers: {counts}")
        lines += self._of_rows()
        return lines

    def _of_rows(self) -> list[str]:
        """Say what a simulation, which knows the rows, tells of values that did not fit."""
        lines = []
        for column, told in self.extra.get("rows_fit", {}).items():
            shares = sorted(told["shares"].items(), key=lambda each: -each[1])
            if shares:
                faults = ", ".join(f"{share:.2%} {fault}" for fault, share in shares)
                lines.append(f"rows simulated, {column}: {faults}")
        if "beside_guess" in self.extra:
            found = self.extra["beside_guess"]
            reached, guessed = figure(found["reached"], 3), figure(found["guessing"], 3)
            if found["measure"] == "right":
                said = f"gets {reached} of them right; the most frequent value alone gets {guessed}"
            else:
                said = f"has a mean squared error of {reached}; that of the mean alone is {guessed}"
            whose = "kept aside" if found.get("aside") else "simulated, from which it learned"
            lines.append(f"rows {whose}, {found['column']}: the model {said}; {_SHOWN[found.get('better')]}")
        return lines

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the answer as columns: one row for each number, with its keys, its error bar (NaN where none is known)
        and the sites that answered (None where people did). A model is what can be read off it."""
        if self.answered and not _is_numbers(self.value):
            from thebes.tasks import registry

            head, rows = registry.table_of(self)
            return {name: [None if row[place] == "" else row[place] for row in rows] for place, name in enumerate(head)}
        keys, numbers = self._numbers()
        bar, count = self._main, len(numbers)
        low, high = (math.nan, math.nan) if bar is None else (bar.low, bar.high)
        ends = {
            name: np.broadcast_to(np.asarray(end, float), count).tolist()
            for name, end in (("low", low), ("high", high))
        }
        answered = ", ".join(map(str, self.extra.get("coverage", {}).get("answered", ()))) or None
        level = math.nan if bar is None else bar.level
        return {**keys, "value": numbers, **ends, "level": [level] * count, "sites": [answered] * count}

    def _numbers(self) -> tuple[dict[str, list[Any]], list[float]]:
        """Every number of the answer, and the columns that tell them apart."""
        if not self.answered:
            return {}, []
        if not isinstance(self.value, Mapping):
            return {}, [float(self.value)]
        from thebes.tasks.answer_keys import key_columns

        told = self.certificate
        several = (
            told.parameters.get("statistics") if told.parameters.get("statistic") == "several statistics" else None
        )
        keys = key_columns(
            [str(key) for key in self.value],
            by=[str(name) for name in self.extra.get("by", ())],
            statistics=[] if several is None else [str(name) for name in several],
            bounds=told.bounds or {},
        )
        return keys, [float(number) for number in self.value.values()]

    def points(self) -> list[Point]:
        """Return what a picture of the answer shows; nothing where there is nothing to draw."""
        from thebes.tasks.release_picture import points_of

        return points_of(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the answer with its error bars by matplotlib, into `ax` or a new figure."""
        from thebes.tasks.release_picture import plot

        return plot(self, ax)

    def __repr__(self) -> str:
        told = self.certificate
        numbers = len(self.value) if isinstance(self.value, Mapping) and _is_numbers(self.value) else 1
        count = f"{numbers} numbers, first " if numbers > 1 else ""
        head = shortened(count + self._lines()[0].rstrip(":"), 85)
        return shortened(f"<{head}; epsilon {figure(told.epsilon)} for one {told.unit}>", 120)

    def _repr_html_(self) -> str:
        from thebes.tasks.release_picture import html

        return html(self)


def _is_numbers(value: Any) -> bool:
    each = value.values() if isinstance(value, Mapping) else [value]
    return all(isinstance(one, (int, float, np.number)) for one in each)


def _with_bar(number: Any, bar: Mapping[str, Any] | None, low: Any, high: Any) -> str:
    if not isinstance(number, (int, float)):
        return type(number).__name__
    if bar is None:
        return figure(number)
    return f"{figure(number)}  ({bar['level']:.0%} interval {figure(low)} to {figure(high)})"


def intervals_of(measurement: Any) -> dict[float, Interval]:
    """A measurement's error bars at every kept level."""
    bars = {level: measurement.interval(level) for level in LEVELS}
    return {bar.level: bar for bar in bars.values() if bar is not None}


def plain(value: Any) -> Any:
    """Numbers as JSON knows them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value

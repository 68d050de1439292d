"""The aggregator of an integrated task: many rows in, one private model out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.certificate import Certificate
from thebes.privacy.mechanisms.bounds import Bounds, NoBounds, estimate_bounds
from thebes.privacy.mechanisms.histogram import histogram
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.columns import Keeping
from thebes.tasks.document import FAILURE, FARTHEST
from thebes.tasks.integrated.kind import NEEDS_DELTA, REGRESSIONS, IntegratedDocument
from thebes.tasks.integrated.release import ModelRelease
from thebes.tasks.missing_values import EpsilonShares, measured, middle_of, never_empty, part

BOUNDS_SHARE = Decimal("0.15")  #: of epsilon, over all columns without declared bounds
LABELS_SHARE = Decimal("0.1")  #: of epsilon, to find the labels where they were not declared
#: where undeclared labels are looked for; others must be declared
CANDIDATES = range(-1, 100)
FALSE_LABEL = 0.01  #: the odds that a label nobody has is taken for one

LEAST_DELTA = 1e-15  #: an estimator that needs a delta gets at least this much, and less epsilon if need be

REPLACE = Adjacency.REPLACE_ONE


class _Unseen(Exception):
    """Something could not be seen through the noise; the sentence says what to declare. The budget is spent."""


class IntegratedAggregator(Keeping[IntegratedDocument]):
    def conclude(self) -> ModelRelease:
        document, columns, source = self.document, self.columns(), self.setting.randomness
        table = np.column_stack([columns[name].astype(np.float64) for name in document.columns])
        missing = np.asarray(np.isnan(table).any(axis=1))
        extra: dict[str, Any] = {"inputs": list(document.inputs), "output": document.output}
        extra |= measured(document, missing, columns.get(FAILURE), source)
        try:
            model, estimated = self._trained(table[~missing], EpsilonShares.of(document).answer)
        except _Unseen as unseen:
            extra["explanation"] = str(unseen)
            return ModelRelease(None, self._unseen(), {}, extra)
        # The estimator knows only its own part of epsilon, and rows instead of people: its certificate stays here.
        certificate = self._certificate(model.certificate_, estimated)
        return ModelRelease({**model.to_json(), "certificate": certificate.as_json()}, certificate, {}, extra)

    def _trained(self, rows: NDArray[np.float64], epsilon: Decimal) -> tuple[Any, tuple[str, ...]]:
        from thebes import learning

        document, estimated = self.document, []
        inputs, target = rows[:, :-1], rows[:, -1]
        ranges, labels = document.ranges(), document.labels
        regression = document.model in REGRESSIONS
        unknown = [c for c in (document.columns if regression else document.inputs) if c not in ranges]
        left = epsilon
        if unknown:
            estimated.append("bounds")
            looking = part(epsilon, BOUNDS_SHARE)
            left -= looking
            for column in unknown:
                values = rows[:, document.columns.index(column)]
                ranges[column] = self._range_of(column, values, part(looking, Decimal(1) / len(unknown)))
        if not regression and labels is None:
            estimated.append("labels")
            looking = part(epsilon, LABELS_SHARE)
            left -= looking
            labels = self._labels_of(target, looking)
            kept = np.isin(target, labels)
            inputs, target = inputs[kept], target[kept]
        elif labels is not None:
            target = np.asarray(labels)[target.astype(np.int64)]
        budget = self._budget(left, fixed_size="labels" not in estimated)
        bounds: dict[int | str, Any] = {place: ranges[column] for place, column in enumerate(document.inputs)}
        if regression:
            bounds["y"] = ranges[document.output]
            estimator = getattr(learning, document.model)(**budget, bounds=bounds)
        else:
            estimator = getattr(learning, document.model)(**budget, bounds=bounds, classes=list(labels or ()))
        if not len(inputs):  # that nobody is there is hidden like everything else: one made-up person stands in
            inputs = np.array([[middle_of(ranges[column]) for column in document.inputs]])
            target = np.array([middle_of(ranges[document.output])]) if regression else np.asarray(labels)[:1]
        table = dict(zip(document.inputs, inputs.T, strict=True))  # by name, so that the model knows what it takes
        return estimator.fit(table, target), tuple(estimated)

    def _budget(self, epsilon: Decimal, *, fixed_size: bool) -> dict[str, Any]:
        """Return what the estimator may spend. Where one person may also be absent from the rows it sees, replacing
        that person is a removal and an addition: half of epsilon each, and delta / (1 + e^(epsilon/2))."""
        common = {"random_state": self.setting.randomness}
        declared = self.document.delta
        if self.document.missing == "refuse" and fixed_size:
            return {"epsilon": epsilon, "delta": declared, "adjacency": REPLACE, **common}
        half = part(epsilon, Decimal("0.5"))
        if self.document.model in NEEDS_DELTA:
            # At a large epsilon nothing would be left of delta: spend less epsilon instead.
            half = min(half, exact.capacity_of(float(np.log(declared / min(LEAST_DELTA, declared / 4) - 1))))
        delta = exact.capacity_of(declared / (1 + float(np.exp(min(700.0, float(half))))), exact.DELTA_STEP)
        if float(delta) < LEAST_DELTA and self.document.model not in NEEDS_DELTA:
            delta = Decimal(0)
        return {"epsilon": half, "delta": delta, "adjacency": Adjacency.ADD_REMOVE_ONE, **common}

    def _range_of(self, column: str, values: NDArray[np.float64], epsilon: Decimal) -> tuple[float, float]:
        found = estimate_bounds(
            never_empty(values),
            epsilon=epsilon,
            adjacency=REPLACE,
            randomness=self.setting.randomness,
            false_positive=0.01,
        ).value
        if isinstance(found, NoBounds):
            raise _Unseen(f"The bounds of {column!r}: {found.sentence}")
        assert isinstance(found, Bounds)  # noqa: S101
        if found.high - found.low > FARTHEST:
            raise _Unseen(f"The values of {column!r} reach too far. Say which range they have.")
        return found.low, found.high

    def _labels_of(self, target: NDArray[np.float64], epsilon: Decimal) -> tuple[int, ...]:
        """The labels among `CANDIDATES` whose noisy count stands out, by a pure histogram over all of them."""
        whole = np.where(target == np.rint(target), target, np.nan)
        index = np.where(np.isnan(whole), -(2**40), whole).astype(np.int64)
        keys = list(CANDIDATES)
        counts = histogram(
            index, keys=keys, epsilon=epsilon, adjacency=REPLACE, randomness=self.setting.randomness
        ).value
        least = 2 / float(epsilon) * float(np.log(len(keys) / FALSE_LABEL))
        labels = tuple(key for key, seen in zip(keys, counts, strict=True) if seen >= least)
        if len(labels) < 2:
            raise _Unseen(
                f"Fewer than two labels of {self.document.output!r} could be seen through the noise. Declare them: "
                f'bounds {{"{self.document.output}": {{"type": "set", "values": [...]}}}}.'
            )
        return labels

    def _certificate(self, made: Certificate, estimated: tuple[str, ...]) -> Certificate:
        from thebes.learning.estimator import MISSING

        document = self.document
        return replace(
            made,
            unit=self.setting.unit,
            adjacency=REPLACE,
            epsilon=document.epsilon,
            delta=document.delta if made.delta else 0.0,
            contributors=self.accepted,
            trust="server",
            estimated=tuple(dict.fromkeys((*estimated, *made.estimated))),
            simulated=self.setting.simulated or made.simulated,
            notes=(*self.notes, *(n for n in made.notes if not n.startswith(("The unit is", MISSING)))),
        )

    def _unseen(self) -> Certificate:
        return Certificate(
            unit=self.setting.unit,
            adjacency=REPLACE,
            epsilon=self.document.epsilon,
            delta=0.0,
            guarantee="pure",
            mechanism="private histograms (nothing else was released)",
            contributors=self.accepted,
            trust="server",
            estimated=("bounds", "labels"),
            notes=self.notes,
            simulated=self.setting.simulated or self.setting.randomness.simulated,
        )


AGGREGATOR = IntegratedAggregator

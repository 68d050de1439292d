"""The aggregator of an integrated task: many rows in, one private model out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.certificate import Certificate
from thebes.privacy.held_out import places, share_of
from thebes.privacy.mechanisms.bounds import Bounds, NoBounds, estimate_bounds
from thebes.privacy.mechanisms.histogram import histogram
from thebes.privacy.model_quality import Quality
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.columns import Keeping
from thebes.tasks.document import FAILURE, FARTHEST
from thebes.tasks.integrated.kind import REGRESSIONS, IntegratedDocument
from thebes.tasks.integrated.release import ModelRelease
from thebes.tasks.missing_values import EpsilonShares, measured, never_empty, part

BOUNDS_SHARE = Decimal("0.15")  #: of epsilon, over all columns without declared bounds
LABELS_SHARE = Decimal("0.1")  #: of epsilon, to find the labels where they were not declared
#: where undeclared labels are looked for; others must be declared
CANDIDATES = range(-1, 100)
FALSE_LABEL = 0.01  #: the odds that a label nobody has is taken for one

REPLACE = Adjacency.REPLACE_ONE


class _Unseen(Exception):
    """Something could not be seen through the noise; the sentence says what to declare. The budget is spent."""


class IntegratedAggregator(Keeping[IntegratedDocument]):
    def conclude(self) -> ModelRelease:
        from thebes.learning.tested import note

        document, columns, source = self.document, self.columns(), self.setting.randomness
        table = never_empty(np.column_stack([columns[name].astype(np.float64) for name in document.columns]))
        missing = np.asarray(np.isnan(table).any(axis=1))
        extra: dict[str, Any] = {"inputs": list(document.inputs), "output": document.output}
        extra |= measured(document, missing, columns.get(FAILURE), source)
        # By place among all who answered, before anybody is left out: else one person would move others between parts.
        share = share_of(len(table), numbers=document.model in REGRESSIONS)
        aside = places(len(table), share, source) if document.quality else np.zeros(len(table), dtype=np.bool_)
        epsilon = EpsilonShares.of(document).answer
        try:
            absent = extra["missing"]["value"] / len(table) if "missing" in extra else 0.0
            model, estimated = self._trained(table[~aside], missing[~aside], absent, epsilon)
        except _Unseen as unseen:
            extra["explanation"] = str(unseen)
            return ModelRelease(None, self._unseen(), {}, extra)
        # The estimator knows only its own part of epsilon, and rows instead of people: its certificate stays here.
        certificate = self._certificate(model.certificate_, estimated)
        extra["quality"] = None
        if document.quality:
            found = self._tested(model, table[~missing & aside], epsilon, share)
            certificate = replace(certificate, notes=(*certificate.notes, note(share, "people")))
            extra["quality"] = found.as_json()
        return ModelRelease({**model.to_json(), "certificate": certificate.as_json()}, certificate, {}, extra)

    def _trained(
        self, table: NDArray[np.float64], missing: NDArray[np.bool_], absent: float, epsilon: Decimal
    ) -> tuple[Any, tuple[str, ...]]:
        """Fit the model on one row for each person, whose number is public: a row of somebody who lacks a value, or has
        none of the labels, has no target and counts for nothing.

        Proof: all that an estimator releases is noise on a sum over rows, its share of the whole epsilon calibrated for
        a row that becomes any other or one that adds 0 (`learning.budget.Reach`); what is bought before has a share of
        its own. So no person has to be removed and added, each for half of epsilon. The estimator gets the number of
        rows that count from what was released already: everybody, less the bought share of people without a value
        (`absent`), or the noisy counts of the labels that were found.
        """
        from thebes import learning

        document, estimated = self.document, []
        inputs, target = table[:, :-1], np.where(missing, np.nan, table[:, -1])
        ranges, labels = document.ranges(), document.labels
        regression = document.model in REGRESSIONS
        unknown = [c for c in (document.columns if regression else document.inputs) if c not in ranges]
        count = len(table) * (1 - absent)
        left = epsilon
        if unknown:
            estimated.append("bounds")
            looking = part(epsilon, BOUNDS_SHARE)
            left -= looking
            for column in unknown:
                values = table[~missing, document.columns.index(column)]
                ranges[column] = self._range_of(column, values, part(looking, Decimal(1) / len(unknown)))
        if not regression and labels is None:
            estimated.append("labels")
            looking = part(epsilon, LABELS_SHARE)
            left -= looking
            labels, count = self._labels_of(target, looking)
            target = np.where(np.isin(target, labels), target, np.nan)
        elif labels is not None:
            target = np.asarray([*labels, None], dtype=object)[np.where(missing, len(labels), table[:, -1]).astype(int)]
        bounds: dict[int | str, Any] = {place: ranges[column] for place, column in enumerate(document.inputs)}
        own: dict[str, Any] = {"classes": list(labels or ())}
        if regression:
            bounds["y"], own = ranges[document.output], {}
        estimator = getattr(learning, document.model)(
            epsilon=left,
            delta=document.delta,
            adjacency=REPLACE,
            bounds=bounds,
            random_state=self.setting.randomness,
            **own,
        )
        by_name = dict(zip(document.inputs, inputs.T, strict=True))  # so that the model knows what it takes
        return estimator.fit(by_name, target, count=min(max(1.0, count), len(table))), tuple(estimated)

    def _tested(self, model: Any, rows: NDArray[np.float64], epsilon: Decimal, share: float) -> Quality:
        """Test on the people set aside, at the whole epsilon of the answer: whoever is replaced is so in the same part.
        Whoever has no value, or no label that the model knows, is in no cell."""
        document, labels, target = self.document, self.document.labels, rows[:, -1]
        found: Quality = model.tested(
            dict(zip(document.inputs, rows[:, :-1].T, strict=True)),
            target if labels is None else np.asarray(labels)[target.astype(np.int64)],
            epsilon=epsilon,
            adjacency=REPLACE,
            share=share,
            randomness=self.setting.randomness,
            of="people that it was not made from",
            metric=document.quality if isinstance(document.quality, str) else None,
        )
        return found

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

    def _labels_of(self, target: NDArray[np.float64], epsilon: Decimal) -> tuple[tuple[int, ...], float]:
        """The labels among `CANDIDATES` whose noisy count stands out, by a pure histogram over all of them, and how
        many people have one of these."""
        whole = np.where(target == np.rint(target), target, np.nan)
        index = np.where(np.isnan(whole), -(2**40), whole).astype(np.int64)
        keys = list(CANDIDATES)
        counts = histogram(
            index, keys=keys, epsilon=epsilon, adjacency=REPLACE, randomness=self.setting.randomness
        ).value
        least = 2 / float(epsilon) * float(np.log(len(keys) / FALSE_LABEL))
        shown = counts >= least
        labels = tuple(key for key, seen in zip(keys, shown, strict=True) if seen)
        if len(labels) < 2:
            raise _Unseen(
                f"Fewer than two labels of {self.document.output!r} could be seen through the noise. Declare them: "
                f'bounds {{"{self.document.output}": {{"type": "set", "values": [...]}}}}.'
            )
        return labels, float(counts[shown].sum())

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

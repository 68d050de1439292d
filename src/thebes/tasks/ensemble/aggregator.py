"""The aggregator of an ensemble task: finds thresholds, maybe scouts, adds reports up, and learns from the sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy import exact
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import Range
from thebes.tasks.ensemble import choosing, fitting, plan
from thebes.tasks.ensemble.cells import Cells, Cut, cells_of, given
from thebes.tasks.ensemble.histogram import Histogram
from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.ensemble.model import described
from thebes.tasks.ensemble.release import EnsembleRelease
from thebes.tasks.ensemble.searching import Search
from thebes.tasks.gathering import Arrays, Gathering
from thebes.tasks.packets import drawn, parts_of
from thebes.tasks.release import LEVEL
from thebes.tasks.shape import Ask, Closed, Setting, Wait

COLLUDING = (0.01, 0.05, 0.1)


class EnsembleAggregator(Gathering):
    document: EnsembleDocument

    def __init__(self, document: Any, setting: Setting) -> None:
        super().__init__(document, setting)
        self._cuts = {feature: given(self.document, feature) for feature in self.document.features}
        self._searches: dict[str, Search] = {}
        if self.document.searching:
            bins = self.document.bins if isinstance(self.document.bins, int) else 2
            for feature in self.document.ranges:
                bound = self.document.bounds[feature]
                assert isinstance(bound, Range)  # noqa: S101
                self._searches[feature] = Search(bound, bins)
        self._choice: list[Cut] | None = None  #: of the scouts
        self._heard: dict[tuple[int, int, int], Histogram] = {}  #: by phase, packet, partition
        self._answers: dict[int, tuple[int, int]] = {}  #: to this step's questions: (how many, how many yes)
        self._contributors = 0

    # --- what is asked ----------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        return self._partitions(self.phase)

    def _partitions(self, phase: int) -> int:
        document = self.document
        if phase < document.searching:
            return len(self._questions())
        if phase < document.last:
            return len(document.features)
        if self._choice is not None:
            return len(self._choice)
        if document.method == "odds" and document.feature_subsets is not None:
            return len(document.feature_subsets)
        return document.partitions

    def _questions(self) -> list[tuple[str, float]]:
        return [(feature, at) for feature, search in self._searches.items() for at in search.questions()]

    def _cells(self, phase: int, packet: int, partition: int) -> Cells:
        document = self.document
        if phase < document.last:
            cuts = [self._cuts[document.features[partition]]]
        elif self._choice is not None:
            cuts = [self._choice[partition]]
        else:
            cuts = [self._cuts[feature] for feature in plan.subset(document, packet, partition)]
        return cells_of(document, cuts)

    def _histogram(self, phase: int, packet: int, partition: int) -> Histogram:
        place = (phase, packet, partition)
        if place not in self._heard:
            cells = self._cells(*place)
            self._heard[place] = Histogram.empty(cells, plan.mechanism(self.document, cells.size, phase))
        return self._heard[place]

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        """As ever, but an early phase that needs few calls few, by their slots; the others wait for theirs."""
        asked = super().ask(slot, packet)
        called = self.setting.simulated or drawn(slot, self.phase, self.document.called_in(self.phase))
        return asked if called or not isinstance(asked, Ask) else Wait(1.0)

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        if self.phase < self.document.searching:
            column, at = self._questions()[partition]
            return {"question": {"column": column, "at": at}}
        cells = self._histogram(self.phase, packet, partition).cells
        return {"features": [cut.as_json() for cut in cells.cuts]}

    def layout(self, part: str, partition: int = 0) -> Layout:
        return plan.layout(self._reporter(part, partition))

    def _reporter(self, part: str, partition: int) -> plan.Reporter:
        phase, packet = self._place(part)
        if phase < self.document.searching:
            return plan.question(plan.share(self.document, phase))
        return self._histogram(phase, packet, partition).reporter

    def _place(self, part: str) -> tuple[int, int]:
        for phase in (self.phase, *range(self.document.phases)):
            parts = parts_of(f"phase-{phase}", self.document.packets(phase))
            if part in parts:
                return phase, parts.index(part)
        return self.phase, 0

    # --- what is heard ----------------------------------------------------------------------------------

    def examine(self, contributions: Contributions) -> Contributions:
        examined = super().examine(contributions)
        if examined.count:
            self._reporter(examined.part, examined.partition).check(examined.fields[plan.REPORT])
        return examined

    def hear(self, contributions: Contributions) -> None:
        reports = np.asarray(contributions.fields[plan.REPORT]).astype(np.int64, copy=False)
        phase, packet = self._place(contributions.part)
        if phase < self.document.searching:
            told, yes = self._answers.get(contributions.partition, (0, 0))
            self._answers[contributions.partition] = (told + len(reports), yes + int(reports.sum()))
        else:
            self._histogram(phase, packet, contributions.partition).hear(reports)

    def conclude(self) -> EnsembleRelease | None:
        """End a phase: move the thresholds, choose the subsets, or learn."""
        self._contributors += self.accepted
        document = self.document
        if self.phase < document.searching:
            self._step()
        elif self.phase < document.last:
            peers = document.wanted_in(document.last) if self._expected is None else self._expected * _more(document)
            self._choice = choosing.chosen(self._scouted(), int(peers))
        else:
            return self._learned()
        return None

    def _step(self) -> None:
        coin = plan.question(plan.share(self.document, self.phase))
        answers: dict[str, dict[float, tuple[int, int]]] = {}
        for place, (feature, at) in enumerate(self._questions()):
            answers.setdefault(feature, {})[at] = self._answers.get(place, (0, 0))
        self._answers = {}
        for feature, search in self._searches.items():
            search.hear(answers[feature], coin)
            if self.phase == self.document.searching - 1:
                self._cuts[feature] = replace(self._cuts[feature], thresholds=search.thresholds())

    # --- what is learned --------------------------------------------------------------------------------

    def _packets(self) -> list[list[Histogram]]:
        last = self.document.last
        return [
            [self._histogram(last, packet, partition) for partition in range(self._partitions(last))]
            for packet in range(self.document.packets(last))
        ]

    def _learned(self) -> EnsembleRelease:
        document, packets = self.document, self._packets()
        every = [histogram for histograms in packets for histogram in histograms]
        base = fitting.base_rate(every)
        if document.method == "odds":
            members = [fitting.odds(histogram, self._scouted(), base) for histogram in every if histogram.count]
        else:
            members = [fitting.voter(document, histogram, base) for histogram in every if histogram.count]
        value = described(document, base, members)
        centre, bars = fitting.base_bars(
            [[h for h in hs if h.count] for hs in packets if any(h.count for h in hs)], LEVEL
        )
        labels = [str(label) for label in value["classes"]]
        ends = {end: dict(zip(labels, np.asarray(getattr(bars, end)).tolist(), strict=True)) for end in ("low", "high")}
        extra = {
            "base_rate": {
                "value": dict(zip(labels, centre.tolist(), strict=True)),
                "interval": {"level": bars.level, **ends},
            },
            "thresholds": {column: list(self._cuts[column].thresholds) for column in document.ranges},
        }
        return EnsembleRelease(value, self._certificate(packets), {}, extra)

    def _scouted(self) -> list[Histogram]:
        if not self.document.scouting:
            return []
        phase = self.document.last - 1
        return [self._histogram(phase, 0, place) for place in range(len(self.document.features))]

    def _certificate(self, packets: list[list[Histogram]]) -> Certificate:
        document, none = self.document, self.document.only_simulated is not None
        names = sorted({h.reporter.name for histograms in packets for h in histograms})
        notes = [*self.notes]
        if none:
            notes.insert(0, "NOT PRIVATE: the task was run without perturbation, as a ceiling to compare with.")
        if document.anonymity == "none":
            notes.append("Peers choose their own pseudonym and with it their partition, which the server cannot check.")
        if document.phases > 1:
            notes.append(
                "That who answers about thresholds or as a scout is somebody else than who sends packets holds for "
                "peers who keep to the task: one who does not can answer in every phase"
                + (", once in each." if document.anonymity == "token" else ", under as many pseudonyms as it likes.")
            )
        defaults = [column for column, bound in document.bounds.items() if bound.default is not None]
        if defaults:
            notes.append(f"A missing value was replaced by the declared default ({', '.join(defaults)}).")
        parameters = {
            "method": document.method,
            "packets": document.packets(document.last),
            "partitions": self._partitions(document.last),
            "epsilon_of_a_packet": float(plan.share(document, document.last)),
            "mechanisms": [h.reporter.parameters() | {"mechanism": h.reporter.name} for h in _different(packets)],
            "per_feature": _per_feature(document),
            "influence": _influence(document, packets, self._scouted()),
        }
        estimated = [f"thresholds of {column}" for column in self._searches]
        if self._choice is not None:
            estimated.append("which features to ask about, and which of their bins to put together")
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=document.epsilon,
            delta=0.0,
            guarantee="none" if none else "pure",
            mechanism="none" if none else f"local {', '.join(names)} on small histograms",
            parameters=parameters,
            bounds={c: b.model_dump(mode="json", exclude_none=True) for c, b in document.bounds.items()},
            contributors=self._contributors,
            trust="none",
            estimated=tuple(estimated),
            simulated=self.setting.simulated,
            notes=tuple(notes),
        )

    # --- what is remembered -----------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        facts = {
            "contributors": self._contributors,
            "searches": {feature: search.as_json() for feature, search in self._searches.items()},
            "answers": [[place, *counts] for place, counts in self._answers.items()],
            "cuts": [cut.as_json() for cut in self._cuts.values()],
            "choice": None if self._choice is None else [cut.as_json() for cut in self._choice],
        }
        arrays: Arrays = {}
        for place, histogram in self._heard.items():
            name = ".".join(map(str, place))
            arrays[f"support.{name}"], arrays[f"told.{name}"] = histogram.support, histogram.told
        return facts, arrays

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._contributors = int(facts["contributors"])
        for feature, told in facts["searches"].items():
            self._searches[feature].restore(told)
        self._answers = {int(place): (int(told), int(yes)) for place, told, yes in facts["answers"]}
        self._cuts = {cut.column: cut for cut in (Cut.asked(self.document, told) for told in facts["cuts"])}
        choice = facts["choice"]
        self._choice = None if choice is None else [Cut.asked(self.document, told) for told in choice]
        self._heard = {}
        for name, array in arrays.items():
            what, *place = name.split(".")
            phase, packet, partition = map(int, place)
            histogram = self._histogram(phase, packet, partition)
            setattr(histogram, what, np.asarray(array, dtype=np.int64).copy())


def _more(document: EnsembleDocument) -> float:
    """How many times the scouts the last phase has."""
    return document.least_in(document.last) / document.least_in(document.last - 1)


def _different(packets: list[list[Histogram]]) -> list[Histogram]:
    """One histogram of every size of domain."""
    return list({(h.reporter.name, h.cells.size): h for histograms in packets for h in histograms}.values())


def _per_feature(document: EnsembleDocument) -> dict[str, Any]:
    """Equation 6 of AnonML: what each value is charged if features told nothing about each other. Weaker than the
    person-level epsilon, which is what the ledger charges."""
    whole, packet = float(exact.epsilon(document.epsilon)), float(plan.share(document, document.last))
    label = packet * document.packets(document.last)
    told = {"unit": "feature", "epsilon_label": label, "epsilon_of_a_feature_in_a_packet": packet}
    if document.searching:
        told["epsilon_of_a_feature_asked_about_its_threshold"] = whole
    return told | {"epsilon": max(label, whole if document.searching else packet)}


def _influence(document: EnsembleDocument, packets: list[list[Histogram]], scouted: list[Histogram]) -> dict[str, Any]:
    """How far peers who report what they like can move a phase's shares: each moves its partition's by 1 / (p - q)
    over the partition's reports. What follows from a moved share is bounded where it is, else said not to be."""
    freely = document.anonymity == "none"
    last = [histogram.reporter for histograms in packets for histogram in histograms]
    told: dict[str, Any] = _moved("a_cells_share_moves_by_at_most", last, len(packets[0]) if freely else None)
    if document.searching:
        coin = plan.question(plan.share(document, 0))
        questions = len(document.ranges) * (document.bins - 1 if isinstance(document.bins, int) else 1)
        told["thresholds"] = _moved("the_share_above_one_moves_by_at_most", [coin], questions if freely else None)
        told["thresholds"]["where_one_lies_in_its_range"] = "not bounded: it may lie far from where few values are"
    if scouted:
        reporters = [histogram.reporter for histogram in scouted]
        told["scouts"] = _moved("a_cells_share_moves_by_at_most", reporters, len(scouted) if freely else None)
        told["scouts"]["which_features_and_bins_are_chosen"] = "not bounded: a small shift may change the choice"
    return told


def _moved(name: str, reporters: Sequence[plan.Reporter], partitions: int | None) -> dict[str, Any]:
    """{name: by how much}; where peers choose their partition, of so many, also for all of them in one."""
    each = max(1 / float(reporter.hold - reporter.stray) for reporter in reporters)
    told = {name: {f"{share:.0%}": min(1.0, share * each) for share in COLLUDING}}
    if partitions is not None:
        spread = {f"{share:.0%}": min(1.0, share * partitions * each) for share in COLLUDING}
        told["in_one_partition_they_all_choose"] = spread
    return told


AGGREGATOR = EnsembleAggregator

"""The aggregator of an ensemble task: finds thresholds, maybe scouts, adds reports up, learns from the sums, and maybe
has what it learned scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.aggregation.checking import Checking
from thebes.tasks.aggregation.packets import drawn, parts_of
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import Range
from thebes.tasks.ensemble import certificate, odds, plan, scouts, voters
from thebes.tasks.ensemble.ballot import Ballot, outcomes
from thebes.tasks.ensemble.bin_search import Search
from thebes.tasks.ensemble.cells import FeatureCut, SubsetCells, cells_of, given
from thebes.tasks.ensemble.histogram import Floats, SupportHistogram
from thebes.tasks.ensemble.kind import EnsembleDocument
from thebes.tasks.ensemble.model import SHOWN, EnsembleMember, described
from thebes.tasks.ensemble.release import EnsembleRelease
from thebes.tasks.protocols import Ask, Closed, Setting, Wait
from thebes.tasks.release import LEVEL, Release


class EnsembleLearner(Gathering[EnsembleDocument]):
    def __init__(self, document: EnsembleDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._cuts = {feature: given(self.document, feature) for feature in self.document.features}
        self._searches: dict[str, Search] = {}
        if self.document.searching:
            bins = self.document.bins if isinstance(self.document.bins, int) else 2
            for feature in self.document.ranges:
                bound = self.document.bounds[feature]
                assert isinstance(bound, Range)  # noqa: S101
                self._searches[feature] = Search(bound, bins)
        self._choice: list[FeatureCut] | None = None  #: of the scouts
        self._members: list[EnsembleMember] = []  #: what the packets taught, while it is scored
        self._heard: dict[tuple[int, int, int], SupportHistogram] = {}  #: by phase, packet, partition
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
        if phase < document.learning:
            return len(document.features)
        if phase > document.learning:
            return len(self._ballots[0])
        if self._choice is not None:
            return len(self._choice)
        return plan.partitions(document)

    def _questions(self) -> list[tuple[str, float]]:
        return [(feature, at) for feature, search in self._searches.items() for at in search.questions()]

    def _cells(self, phase: int, packet: int, partition: int) -> SubsetCells:
        document = self.document
        if phase > document.learning:
            return outcomes(document)
        if phase < document.learning:
            cuts = [self._cuts[document.features[partition]]]
        elif self._choice is not None:
            cuts = [self._choice[partition]]
        else:
            cuts = [self._cuts[feature] for feature in plan.subset(document, packet, partition)]
        return cells_of(document, cuts)

    def _histogram(self, phase: int, packet: int, partition: int) -> SupportHistogram:
        place = (phase, packet, partition)
        if place not in self._heard:
            cells = self._cells(*place)
            self._heard[place] = SupportHistogram.empty(cells, plan.mechanism(self.document, cells.size, phase))
        return self._heard[place]

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        """As ever, but an early phase that needs few calls few, by their slots; the others wait for theirs. A further
        packet is no longer wanted once the phase of the packets is over."""
        if packet and self.phase > self.document.learning:
            return Closed()
        asked = super().ask(slot, packet)
        called = self.setting.simulated or drawn(slot, self.phase, self.document.called_in(self.phase))
        return asked if called or not isinstance(asked, Ask) else Wait(1.0)

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        if self.phase < self.document.searching:
            column, at = self._questions()[partition]
            return {"question": {"column": column, "at": at}}
        if self.phase > self.document.learning:
            return self._ballots[0][partition].as_json()
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

    def conclude(self) -> Release | None:
        """End a phase: move the thresholds, choose the subsets, learn, or weigh the votes."""
        self._contributors += self.accepted
        document = self.document
        if self.phase < document.searching:
            self._step()
        elif self.phase < document.learning:
            peers = (
                document.wanted_in(document.learning) if self._expected is None else self._expected * _more(document)
            )
            self._choice = scouts.chosen(self._scouted(), int(peers))
        elif self.phase < document.phases_to_learn - 1:
            self._members = self._learned()
        else:
            return self._released(self._rescored() if document.scoring else self._learned())
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

    def _packets(self) -> list[list[SupportHistogram]]:
        learning = self.document.learning
        return [
            [self._histogram(learning, packet, partition) for partition in range(self._partitions(learning))]
            for packet in range(self.document.packets(learning))
        ]

    @cached_property
    def _base(self) -> Floats:
        """The labels' shares, once the packets are there."""
        return voters.base_rate([histogram for histograms in self._packets() for histogram in histograms])

    @cached_property
    def _ballots(self) -> tuple[list[Ballot], list[int]]:
        """The ballots that are scored once the packets are there, and which of them each member casts."""
        return voters.ballots(self._members, self._base)

    def _learned(self) -> list[EnsembleMember]:
        """The members, as they are released."""
        document = self.document
        heard = [histogram for histograms in self._packets() for histogram in histograms if histogram.count]
        if document.method == "odds":
            made = [odds.member(histogram, self._scouted(), self._base) for histogram in heard]
        else:
            made = [voters.voter(document, histogram, self._base) for histogram in heard]
        return [EnsembleMember.read(document, member.as_json()) for member in made]

    def _rescored(self) -> list[EnsembleMember]:
        scored = self._scored()
        return [
            voters.rescored(self.document, member, scored[ballot], self._base)
            for member, ballot in zip(self._members, self._ballots[1], strict=True)
        ]

    def _released(self, members: list[EnsembleMember]) -> EnsembleRelease:
        document, packets = self.document, self._packets()
        value = described(document, self._base, members)
        centre, bars = voters.base_bars(
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
        extra["quality"] = None  # until people have checked it
        chosen, scored = self._choice is not None, self._scored() if document.scoring else []
        heard = certificate.Heard(packets, self._scouted(), scored, self._contributors, chosen=chosen)
        return EnsembleRelease(value, certificate.certificate(document, self.setting, heard, self.notes), {}, extra)

    def _scouted(self) -> list[SupportHistogram]:
        if not self.document.scouting:
            return []
        phase = self.document.learning - 1
        return [self._histogram(phase, 0, place) for place in range(len(self.document.features))]

    def _scored(self) -> list[SupportHistogram]:
        """Collect what was said about each ballot."""
        return [self._histogram(self.document.learning + 1, 0, place) for place in range(len(self._ballots[0]))]

    # --- what is remembered -----------------------------------------------------------------------------

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        facts = {
            "contributors": self._contributors,
            "searches": {feature: search.as_json() for feature, search in self._searches.items()},
            "answers": [[place, *counts] for place, counts in self._answers.items()],
            "cuts": [cut.as_json() for cut in self._cuts.values()],
            "choice": None if self._choice is None else [cut.as_json() for cut in self._choice],
            "members": [member.as_json() for member in self._members],
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
        self._cuts = {cut.column: cut for cut in (FeatureCut.asked(self.document, told) for told in facts["cuts"])}
        choice = facts["choice"]
        self._choice = None if choice is None else [FeatureCut.asked(self.document, told) for told in choice]
        self._members = [EnsembleMember.read(self.document, told) for told in facts.get("members", [])]
        self._heard = {}
        for name, array in arrays.items():
            what, *place = name.split(".")
            phase, packet, partition = map(int, place)
            histogram = self._histogram(phase, packet, partition)
            setattr(histogram, what, np.asarray(array, dtype=np.int64).copy())


def _more(document: EnsembleDocument) -> float:
    """Return how many times as many people as the scouts the phase after them has."""
    return document.least_in(document.learning) / document.least_in(document.learning - 1)


class EnsembleAggregator(Checking[EnsembleDocument], EnsembleLearner):
    def shown(self, release: Release) -> dict[str, Any]:
        return {name: release.value[name] for name in SHOWN}


AGGREGATOR = EnsembleAggregator

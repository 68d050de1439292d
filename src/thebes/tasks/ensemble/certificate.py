"""The certificate of an ensemble: who pays what in which role, and what peers who collude can move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thebes.privacy import exact
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.document import bounds_as_json
from thebes.tasks.ensemble import plan
from thebes.tasks.ensemble.histogram import SupportHistogram
from thebes.tasks.ensemble.kind import KIND, EnsembleDocument
from thebes.tasks.protocols import Setting

COLLUDING = (0.01, 0.05, 0.1)


@dataclass(frozen=True, slots=True)
class Heard:
    """The histograms that an aggregator heard: by packet and peer partition, those of the scouts, those about each
    ballot; and from how many people."""

    packets: Sequence[Sequence[SupportHistogram]]
    scouted: Sequence[SupportHistogram]
    scored: Sequence[SupportHistogram]
    contributors: int
    chosen: bool  #: whether scouts chose what was asked about

    @property
    def sent(self) -> list[SupportHistogram]:
        """The histograms of every packet."""
        return [histogram for histograms in self.packets for histogram in histograms]


def certificate(document: EnsembleDocument, setting: Setting, heard: Heard, notes: Sequence[str]) -> Certificate:
    """The certificate of a release; `notes` are those that every certificate of such a task must hold."""
    none = document.only_simulated is not None
    names = sorted({histogram.reporter.name for histogram in [*heard.sent, *heard.scored]})
    parameters: dict[str, Any] = {
        "method": document.method,
        "choice": KIND.choice(document).as_json(),
        "packets": document.packets(document.learning),
        "partitions": len(heard.packets[0]),
        "epsilon_of_a_packet": float(plan.share(document, document.learning)),
        "mechanisms": [h.reporter.parameters() | {"mechanism": h.reporter.name} for h in _different(heard.sent)],
        "per_feature": _per_feature(document),
        "influence": _influence(document, heard),
    }
    if document.scoring:
        parameters["scoring"] = _scoring(document, heard.scored)
    estimated = [f"thresholds of {column}" for column in document.ranges] if document.searching else []
    if heard.chosen:
        estimated.append("which features to ask about, and which of their bins to put together")
    return Certificate(
        unit=setting.unit,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=document.epsilon,
        delta=0.0,
        guarantee="none" if none else "pure",
        mechanism="none" if none else f"local {', '.join(names)} on small histograms",
        parameters=parameters,
        bounds=bounds_as_json(document.bounds),
        contributors=heard.contributors,
        trust="none",
        estimated=tuple(estimated),
        simulated=setting.simulated,
        notes=(*_warnings(document), *notes, *_notes(document)),
    )


def _warnings(document: EnsembleDocument) -> list[str]:
    if document.only_simulated is None:
        return []
    return ["NOT PRIVATE: the task was run without perturbation, as a ceiling to compare with."]


def _notes(document: EnsembleDocument) -> list[str]:
    notes = []
    if document.anonymity == "none":
        notes.append("Peers choose their own pseudonym and with it their partition, which the server cannot check.")
    if document.phases_to_learn > 1:
        notes.append(
            "That who answers about thresholds, as a scout or about a classifier is somebody else than who sends "
            "packets holds for peers who keep to the task: one who does not can answer in every phase"
            + (", once in each." if document.anonymity == "token" else ", under as many pseudonyms as it likes.")
        )
    if document.scoring:
        notes.append(
            "How much each vote weighs was said by people who sent no packet: how a classifier votes about their own "
            "row and what is true, changed at random."
        )
    defaults = [column for column, bound in document.bounds.items() if bound.default is not None]
    if defaults:
        notes.append(f"A missing value was replaced by the declared default ({', '.join(defaults)}).")
    return notes


def _different(histograms: Sequence[SupportHistogram]) -> list[SupportHistogram]:
    """One histogram of every size of domain."""
    return list({(h.reporter.name, h.cells.size): h for h in histograms}.values())


def _per_feature(document: EnsembleDocument) -> dict[str, Any]:
    """Equation 6 of AnonML: what each value is charged if features told nothing about each other. Weaker than the
    person-level epsilon, which is what the ledger charges."""
    whole, packet = float(exact.epsilon(document.epsilon)), float(plan.share(document, document.learning))
    label = packet * document.packets(document.learning)
    told = {"unit": "feature", "epsilon_label": label, "epsilon_of_a_feature_in_a_packet": packet}
    if document.searching:
        told["epsilon_of_a_feature_asked_about_its_threshold"] = whole
    if document.scoring:
        told["epsilon_of_a_feature_of_a_scored_classifier"] = whole
    return told | {"epsilon": max(label, whole if document.searching or document.scoring else packet)}


def _scoring(document: EnsembleDocument, scored: Sequence[SupportHistogram]) -> dict[str, Any]:
    """Tell who weighed the votes, and with what."""
    return {
        "classifiers": len(scored),
        "reports": sum(histogram.count for histogram in scored),
        "classifiers_without_a_report": sum(not histogram.count for histogram in scored),
        "epsilon_of_a_report": float(plan.share(document, document.learning + 1)),
        "mechanisms": [h.reporter.parameters() | {"mechanism": h.reporter.name} for h in _different(scored)],
    }


def _influence(document: EnsembleDocument, heard: Heard) -> dict[str, Any]:
    """Bound how far peers who report what they like can move a phase's shares: each moves its partition's by
    1 / (p - q) over the partition's reports. What follows from a moved share is bounded where it is, else said not to
    be."""
    freely = document.anonymity == "none"
    sent = [histogram.reporter for histogram in heard.sent]
    told: dict[str, Any] = _moved("a_cells_share_moves_by_at_most", sent, len(heard.packets[0]) if freely else None)
    if document.searching:
        coin = plan.question(plan.share(document, 0))
        questions = len(document.ranges) * (document.bins - 1 if isinstance(document.bins, int) else 1)
        told["thresholds"] = _moved("the_share_above_one_moves_by_at_most", [coin], questions if freely else None)
        told["thresholds"]["where_one_lies_in_its_range"] = "not bounded: it may lie far from where few values are"
    if heard.scouted:
        reporters = [histogram.reporter for histogram in heard.scouted]
        told["scouts"] = _moved("a_cells_share_moves_by_at_most", reporters, len(heard.scouted) if freely else None)
        told["scouts"]["which_features_and_bins_are_chosen"] = "not bounded: a small shift may change the choice"
    if heard.scored:
        reporters = [histogram.reporter for histogram in heard.scored]
        told["scorers"] = _moved("an_outcomes_share_moves_by_at_most", reporters, len(heard.scored) if freely else None)
        told["scorers"]["what_a_vote_weighs"] = "from 0 to 1, whatever they say"
    return told


def _moved(name: str, reporters: Sequence[plan.Reporter], partitions: int | None) -> dict[str, Any]:
    """{name: by how much}; where peers choose their partition, of so many, also for all of them in one."""
    each = max(1 / float(reporter.hold - reporter.stray) for reporter in reporters)
    told = {name: {f"{share:.0%}": min(1.0, share * each) for share in COLLUDING}}
    if partitions is not None:
        spread = {f"{share:.0%}": min(1.0, share * partitions * each) for share in COLLUDING}
        told["in_one_partition_they_all_choose"] = spread
    return told

"""The document of an ensemble task, its price, and what a person is told about it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks import explanation
from thebes.tasks.choice import RuledChoice
from thebes.tasks.document import Bounds, InvalidDocument, Range, Scalar, Values, named, read_as, rule
from thebes.tasks.model_check import CheckableDocument, asked_instead
from thebes.tasks.protocols import Words

MISSING = "missing"  #: the category of a value that is not there and has no default
MOST_CELLS = 4096  #: of one histogram
MOST_BINS = 32
_LISTS = ("bins", "groups", "feature_subsets")
#: what says by hand how votes are made, or which columns are asked about together
_BY_HAND = (
    *("partitions", "subset_size", "subsets", "feature_subsets"),
    *("scoring_share", "votes", "classifier", "score", "training"),
)
_WHY = {
    "odds": "log-odds that add up told labels right more often than votes on nearly every table that was tried",
    "vote": "the task names it, or says by hand how votes are made or what is asked about together",
}


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down: a document does not change."""
    if isinstance(value, Mapping):
        return {key: frozen(item) for key, item in value.items()}
    return tuple(frozen(item) for item in value) if isinstance(value, (list, tuple)) else value


class EnsembleDocument(CheckableDocument):
    """A classifier of `label` from histograms of feature subsets, each report perturbed by its owner.

    `epsilon` covers everything one person sends: every packet, or the one answer about a threshold.
    """

    type: Literal["ensemble"] = "ensemble"
    server: Literal["untrusted"] = "untrusted"
    bounds: Bounds
    label: str
    partitions: int = Field(default=8, ge=1, le=1000)  #: peer partitions; with "odds" one for each subset
    subset_size: int = Field(default=1, ge=1, le=8)
    subsets: int = Field(default=1, ge=1, le=32)  #: packets that one peer sends
    feature_subsets: tuple[tuple[str, ...], ...] | None = Field(default=None, min_length=1, max_length=1000)
    #: how ranges become categories: at their medians, at so many quantiles less one, or at given thresholds
    bins: Literal["median"] | int | dict[str, tuple[float, ...]] = "median"
    groups: dict[str, tuple[tuple[Scalar, ...], ...]] | None = None  #: categories that count as one
    binning_share: float = Field(default=0.1, gt=0, le=0.5)  #: of the people, asked about thresholds only
    binning_steps: int = Field(default=6, ge=1, le=30)
    #: of the people, asked first about single features to choose among them; none: "odds" joins them by public rule
    scouting_share: float | None = Field(default=None, gt=0, le=0.5)
    #: of the people, who score the classifiers on their own rows; without it they are scored on the noisy histograms
    scoring_share: float | None = Field(default=None, gt=0, le=0.5)
    perturbation: Literal["auto", "krr", "rappor", "pq", "subset", "none"] = "auto"
    #: "auto" is never read: it is settled before, by what else the document names
    method: Literal["auto", "vote", "odds"] = "auto"
    votes: Literal["hard", "probability"] = "hard"
    classifier: Literal["logistic", "tree"] = "logistic"
    score: Literal["f1", "auc"] = "f1"
    training: Literal["weighted", "sampled"] = "weighted"

    @model_validator(mode="before")
    @classmethod
    def _settled(cls, given: object) -> object:
        """Write in which method is meant: the digest covers it, and whoever reads the document takes the same one."""
        if not isinstance(given, Mapping) or given.get("method", "auto") != "auto":
            return given
        by_hand = any(given.get(field) is not None for field in _BY_HAND)
        return {**given, "method": "vote" if by_hand else "odds"}

    @field_validator(*_LISTS, mode="before")
    @classmethod
    def _as_tuples(cls, value: object) -> object:
        return frozen(value)

    @field_validator("bins")
    @classmethod
    def _some_bins(cls, value: object) -> object:
        if isinstance(value, int) and not 2 <= value <= MOST_BINS:
            raise ValueError(f"must be from 2 to {MOST_BINS}")
        return value

    @field_validator("diagnostics")
    @classmethod
    def _no_diagnostics(cls, value: object) -> object:
        if value is not None:
            raise ValueError("is not offered here: leave it out")
        return value

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        for column in self.gives:
            if column not in self.bounds:
                raise rule(f"bounds.{column}", "is missing: every column needs a range or a set of values")
            bound = self.bounds[column]
            if isinstance(bound, Values) and bound.default is None and MISSING in bound.values:
                raise rule(f"bounds.{column}", f"needs a default: {MISSING!r} stands for a value that is not there")
        if self.label not in self.gives:
            raise rule("label", "must be one of the featurizer's columns")
        if not isinstance(self.bounds[self.label], Values):
            raise rule("label", "must be a set of values in bounds")
        if not self.features:
            raise rule("featurizer", "gives the label only: a classifier needs a feature")
        return self

    @model_validator(mode="after")
    def _bins_and_groups_fit(self) -> Self:
        if isinstance(self.bins, dict):
            for column in self.ranges:
                if column not in self.bins:
                    raise rule("bins", f"has no thresholds for {named(column)}")
            for column, thresholds in self.bins.items():
                bound = self.bounds.get(column)
                if not isinstance(bound, Range):
                    raise rule("bins", f"names {named(column)}, which is not a range")
                ends = (bound.low, *thresholds, bound.high)
                if not 1 <= len(thresholds) < MOST_BINS or any(a >= b for a, b in itertools.pairwise(ends)):
                    raise rule("bins", f"for {named(column)} must rise from above its low to below its high")
        for column, groups in (self.groups or {}).items():
            bound = self.bounds.get(column)
            if not isinstance(bound, Values) or column == self.label:
                raise rule("groups", f"names {named(column)}, which is not a set among the features")
            listed = [value for group in groups for value in group]
            if len(groups) < 2 or sorted(map(repr, listed)) != sorted(map(repr, bound.values)):
                raise rule("groups", f"of {named(column)} must hold each of its values once, in at least two groups")
        return self

    @model_validator(mode="after")
    def _subsets_fit(self) -> Self:
        if self.method == "odds" and self.subsets > 1:
            raise rule("subsets", 'must be 1 with "odds": each peer spends all of epsilon on one report')
        if self.scouting_share is not None and (self.method == "vote" or self.feature_subsets is not None):
            raise rule("scouting_share", 'chooses features for "odds" where no feature_subsets are given: leave it out')
        for subset in self.feature_subsets or ():
            if not subset or len(set(subset)) != len(subset) or not set(subset) <= set(self.features):
                raise rule("feature_subsets", "must be lists of different features")
        if self.feature_subsets is not None:
            pools = [{f for s in self.feature_subsets[h :: self.subsets] for f in s} for h in range(self.subsets)]
            if any(not pool for pool in pools) or sum(map(len, pools)) != len(set().union(*pools)):
                raise rule(
                    "feature_subsets", "are dealt out to the packets in turn: no two packets may share a feature"
                )
        elif self.method == "vote" and self.subset_size > len(self.features) // self.subsets:
            raise rule("subset_size", f"times subsets must not exceed the {len(self.features)} features")
        return self

    @model_validator(mode="after")
    def _scores_fit(self) -> Self:
        if self.scoring_share is None:
            return self
        if self.method == "odds":
            raise rule("scoring_share", 'weighs votes, and with "odds" nobody votes: leave it out')
        if self.max_count is not None:
            raise rule(
                "max_count", "must be left out with scoring_share: scores are asked for once the packets are there"
            )
        labels = self.bounds[self.label]
        if isinstance(labels, Values) and len(labels.values) * (len(labels.values) + 1) > MOST_CELLS:
            raise rule("scoring_share", "must be left out where there are so many labels")
        return self

    # --- what is public about it ------------------------------------------------------------------------

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(column for column in self.gives if column != self.label)

    @property
    def ranges(self) -> tuple[str, ...]:
        """The features that have to be cut into bins."""
        return tuple(column for column in self.features if isinstance(self.bounds[column], Range))

    @property
    def searching(self) -> int:
        """The number of phases that look for thresholds; each asks people of its own."""
        return self.binning_steps if self.ranges and not isinstance(self.bins, dict) else 0

    @property
    def scouting(self) -> int:
        """One where a phase with people of its own measures the features one by one to choose among them, else none."""
        return 0 if self.scouting_share is None else 1

    @property
    def scoring(self) -> int:
        """One where a last phase with people of its own scores the classifiers, else none."""
        return 0 if self.scoring_share is None else 1

    @property
    def phases_to_learn(self) -> int:
        return self.searching + self.scouting + 1 + self.scoring

    @property
    def learning(self) -> int:
        """The phase whose packets make the classifier."""
        return self.searching + self.scouting

    def packets(self, phase: int) -> int:
        return self.subsets if phase == self.learning else 1

    def partitions_in(self, phase: int) -> int:
        from thebes.tasks.ensemble.plan import most_partitions

        return most_partitions(self, phase)

    def least_in(self, phase: int) -> int:
        """`min_count` send packets; thresholds, choice and scores need people of their own beside them, in shares of
        all."""
        if phase == self.learning or self.checks_in(phase):
            return super().least_in(phase)
        searchers = self.binning_share if self.searching else 0.0
        scouts = self.scouting_share or 0.0
        scorers = self.scoring_share or 0.0
        everybody = self.min_count / max(1 - searchers - scouts - scorers, 0.1)
        share = searchers / self.searching if phase < self.searching else scouts if phase < self.learning else scorers
        return max(1, math.ceil(everybody * share - 1e-9))

    def called_in(self, phase: int) -> float:
        """The share of the slots that may answer an early phase: three times as many as it needs and more where these
        are few. Everybody who is there at once would fill it many times over, and pay for nothing."""
        if phase >= self.phases_to_learn - 1:
            return 1.0
        least, everybody = self.least_in(phase), sum(map(self.least_in, range(self.phases)))
        return min(1.0, max(3 * least, least + 6 * math.sqrt(least) + 2) / everybody)

    def wanted_in(self, phase: int) -> int:
        return super().wanted_in(phase) if phase == self.learning else self.least_in(phase)

    @property
    def only_simulated(self) -> str | None:
        return "perturbation" if self.perturbation == "none" else None


class EnsembleKind:
    type = "ensemble"
    document = EnsembleDocument
    words = Words(
        "An ensemble",
        "a classifier, learned from packets of few columns each, changed at random before they leave a person",
        "many small models that vote",
        example=(
            "Which of your columns a packet is about, and where numbers are cut that the task does not cut itself, "
            "is known only once the coordinator asks: this is one possibility. A packet often names more than one "
            "combination, and may name none that is true."
        ),
    )

    def subject(self, document: Mapping[str, Any]) -> str:
        return f"Classifier of {document['label']}"

    def check(self, document: Mapping[str, Any]) -> EnsembleDocument:
        from thebes.tasks.ensemble.plan import affordable

        checked = read_as(EnsembleDocument, document)
        try:
            affordable(checked)
        except Mistake as refused:
            raise InvalidDocument([(refused.argument, refused.message)]) from None
        return checked

    def choice(self, document: EnsembleDocument) -> RuledChoice:
        return RuledChoice("method", document.method, _WHY[document.method])

    def price(self, document: EnsembleDocument, *, unit: Unit = Unit.DEVICE) -> Price:
        return Price(document.epsilon, document.delta, unit)

    def explain(self, document: EnsembleDocument) -> str:
        private = document.only_simulated is None  # else no way protects anybody
        return explanation.together(
            document, leaves=_leaves(document), choice=self.choice(document) if private else None
        )


def _leaves(document: EnsembleDocument) -> str:
    columns = ", ".join(document.features)
    if document.perturbation == "none":
        return (
            f"NOT PRIVATE: your {columns} and {document.label} would leave exactly as they are, in coarse steps. No "
            "noise is added and no price protects you. This form is for simulations with data of one's own; a person's "
            "machine refuses it."
        )
    scorers = (
        f" Some people are asked instead how one of the rules would name their {document.label}, and what it is; both "
        "together are changed at random in the same way, and who answers that sends no packet."
        if document.scoring
        else ""
    )
    coarse = (
        " Some people are asked instead on which side of a threshold one of their numbers lies, so that it is known "
        "where to cut; who answers that sends no packet."
        if document.searching
        else ""
    )
    scouts = " Some are asked early, to find out which of these columns matter." if document.scouting else ""
    packets = "one packet" if document.packets(document.learning) == 1 else f"up to {document.subsets} packets"
    return explanation.changed_here(
        does=f"makes {packets} of a few of {columns}, in coarse steps, together with your {document.label}, and ",
        changes="all of it",
        then=f"From many packets the server learns a rule that predicts {document.label}; it can believe no single one."
        + coarse
        + scouts
        + scorers
        + asked_instead(document, "packet"),
    )


KIND = EnsembleKind()

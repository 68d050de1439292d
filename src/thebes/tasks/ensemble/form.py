"""The form of an ensemble task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.tasks.form import CHECKED, PREDICTED, Form, FormState, Hint


def _votes(composed: FormState) -> bool:
    return composed.get("method") == "vote"


def _of_votes(**said: Any) -> Hint:
    return Hint(when=_votes, **said)


_MEANINGS: Mapping[str, str] = {
    "bounds": "needed for every column; a default saves the bin in which missing values are counted",
    "label": "the column to predict: a set in bounds",
    "partitions": "peer partitions; with odds there is one for each subset instead",
    "subsets": "packets of one peer; packet h is about the h-th block of the features, so no two share one",
    "subset_size": "features in a packet",
    "feature_subsets": "lists of features instead of random ones; dealt out to the packets in turn",
    "bins": "how ranges are cut: at the median, into so many quantile bins, or at given thresholds by column",
    "groups": "by column, lists of categories that count as one",
    "binning_share": "which share of the people is asked about thresholds",
    "binning_steps": "in how many steps thresholds are found",
    "scouting_share": "with odds and no feature_subsets: which share of the people is asked first, to find out which "
    "features matter",
    "scoring_share": "of a vote: which share of the people scores the classifiers on their own rows, in a last phase; "
    "without it they are scored on the noisy histograms",
    "perturbation": "krr, rappor, pq, subset, or whichever has the least expected error for this many cells and this "
    "epsilon. none: in simulations only",
    "method": "vote: a classifier for each partition, weighted by its cross-validated score on the noisy data. odds: "
    "log-odds that add up. auto: odds, or vote where the document says by hand how votes are made",
    "votes": "hard: each member names the label that it finds most raised above its base rate. probability: "
    "probabilities are averaged",
    "classifier": "of a vote",
    "score": "of a vote: f1 of the rarer label, or auc",
    "training": "weighted: classifiers are trained on the histogram's cells weighted by their counts. sampled: on "
    "rows drawn from it",
}

FORM = Form(
    rank=5,
    fields={
        "subsets": Hint(label="Packets of one person", help="they share the price"),
        "subset_size": Hint(label="Columns in a packet", help="beside the predicted one"),
        "feature_subsets": Hint(
            label="Which columns together",
            help="a packet in each line, commas between its columns; leave empty to have them drawn",
            wide=True,
        ),
        "perturbation": Hint(
            label="Changed at random by",
            help="auto: what is expected to err least",
            told={each: each for each in ("auto", "krr", "rappor", "pq", "subset")},
        ),
        "bins": Hint(
            label="Numbers are cut",
            help="in two at the median if empty, people are asked for it; into so many bins of equally many people, "
            "such as 4; or where you say, a line for each column, such as age = 30, 50.5",
            wide=True,
        ),
        "method": Hint(
            label="Put together by",
            help="vote: many small classifiers; odds: log-odds that add up, one packet each; auto: odds, but vote "
            "where something is said above of packets or columns together",
        ),
        "partitions": _of_votes(label="Parts of the people", help="each is asked about other columns"),
        "votes": _of_votes(help="hard: one label each"),
        "classifier": _of_votes(label="Each learns by"),
        "score": _of_votes(label="Weighed by", help="how well each does on the noised packets"),
        "scoring_share": _of_votes(
            label="Share of people who weigh",
            help="these score the classifiers on their own values; nobody if empty",
        ),
        "label": PREDICTED,
        "quality": CHECKED,
    },
    meanings=_MEANINGS,
)

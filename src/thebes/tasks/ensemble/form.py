"""The form of an ensemble task."""

from __future__ import annotations

from typing import Any

from thebes.tasks.form import CHECKED, PREDICTED, Form, FormState, Hint


def _votes(composed: FormState) -> bool:
    return composed.get("method") == "vote"


def _of_votes(**said: Any) -> Hint:
    return Hint(when=_votes, **said)


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
)

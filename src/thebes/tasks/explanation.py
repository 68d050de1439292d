"""Plain words that every kind's explanation shares: what is read, what leaves, what the price means."""

from __future__ import annotations

import math

from thebes.tasks.document import PeopleDocument

#: between what is read and the SQL that reads it, so that a page which shows the SQL elsewhere can leave it out
BY_RUNNING = ", by running: "


def what_is_read(document: PeopleDocument) -> str:
    """The tables and columns the featurizer touches."""
    if not document.reads:
        return "This task reads nothing from your store."
    pieces = [
        f"{', '.join(columns) if columns else 'the number of rows'} from {table}"
        for table, columns in document.reads.items()
    ]
    return f"This task would like to read {'; '.join(pieces)}{BY_RUNNING}{document.featurizer.strip()}"


def what_the_price_means(document: PeopleDocument) -> str:
    """The price as odds: what somebody who already suspects something about you could learn at most."""
    epsilon, delta = document.epsilon, document.delta
    sure = math.exp(epsilon) / (1 + math.exp(epsilon)) if epsilon < 700 else 1.0
    slack = f", except with a chance of {delta:g}" if delta else ""
    return (
        f"Price: epsilon {epsilon:g}{f', delta {delta:g}' if delta else ''}. Somebody who had to guess, fifty-fifty, "
        f"which of two answers you gave would be right {_how_often(sure)} after seeing what this "
        f"task reveals{slack}. This is all it may ever cost you, over every part of the task."
    )


def how_many(document: PeopleDocument) -> str:
    """When an answer is made."""
    limit = f" (at most {document.max_count})" if document.max_count else ""
    deadline = f", or nothing at all if that has not happened by {document.expires_at}" if document.expires_at else ""
    return f"An answer is made once {document.min_count} people have contributed{limit}{deadline}."


def who_asks(document: PeopleDocument) -> str:
    """Name and purpose as the requestor wrote them."""
    pieces = [
        f"Name: {document.name}." if document.name else "",
        f"Purpose: {document.purpose}" if document.purpose else "",
    ]
    return " ".join(piece for piece in pieces if piece)


def what_else_is_told(document: PeopleDocument) -> str:
    """What is released beside the answer, inside the same price."""
    told = [
        "how many people have no value" if getattr(document, "missing", "refuse") == "count" else "",
        "on how many machines this query fails, by kind of error" if document.diagnostics is not None else "",
    ]
    pieces = [piece for piece in told if piece]
    return f"Released too, changed at random and inside the price below: {'; '.join(pieces)}." if pieces else ""


def together(document: PeopleDocument, *, leaves: str) -> str:
    """The whole explanation. `leaves` says what leaves, to whom, and what becomes of it."""
    seen = (
        "Whoever runs the server sees that you took part."
        if document.anonymity == "none"
        else (
            f"You take part with a token of the group {document.group}: it shows that one of its members answers, and "
            "that nobody answers twice, but not who, not even to whoever runs the server. It does not hide where your "
            "message comes from; an anonymous connection does."
        )
    )
    sentences = [
        who_asks(document),
        what_is_read(document),
        leaves,
        what_else_is_told(document),
        how_many(document),
        seen,
        what_the_price_means(document),
        "Nothing leaves before you agree.",
    ]
    return "\n".join(s for s in sentences if s)


def _how_often(share: float) -> str:
    # Rounded up: a risk is never told smaller than it is.
    return "almost always" if share > 0.999 else f"at most {math.ceil(1000 * share) / 10:.3g} % of the time"

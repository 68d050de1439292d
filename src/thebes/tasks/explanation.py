"""Plain words that every kind shares, wherever a person reads them: what is read, what leaves, what it costs, and what
somebody could learn from it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from thebes.privacy.accounting.odds import large_delta, meaning
from thebes.privacy.figures import figure, spaced
from thebes.tasks.choice import DocumentChoice, RuledChoice
from thebes.tasks.document import PeopleDocument
from thebes.tasks.mixed_document import MixedDocument

#: between what is read and the SQL that reads it, so that a page which shows the SQL elsewhere can leave it out
BY_RUNNING = ", by running: "


MOST_COLUMNS = 3  #: that a few words name


def few(columns: Sequence[str]) -> str:
    """Name the first of some columns, and say how many more there are."""
    more = len(columns) - MOST_COLUMNS
    return ", ".join(map(str, columns[:MOST_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def what_is_read(document: PeopleDocument) -> str:
    """The tables and columns the featurizer touches."""
    if not document.reads:
        return "This task reads nothing from your store."
    pieces = [
        f"{', '.join(columns) if columns else 'the number of rows'} from {table}"
        for table, columns in document.reads.items()
    ]
    return f"This task would like to read {'; '.join(pieces)}{BY_RUNNING}{document.featurizer.strip()}"


def what_leaves(*, trusted: bool, split: bool = False) -> str:
    """Say what leaves and who has to be trusted, in short; the same for every kind."""
    if split:
        return (
            "Two shares would leave, each of which is chance alone: one to the server, one, sealed, to a helper, which "
            "is said to belong to another institution. You would have to trust that at least one of the two keeps its "
            "word; both together could put your value back together."
        )
    if trusted:
        return (
            "Your values would leave as they are. You would have to trust the server: it promises to combine them with "
            "other people's, to release the result with noise only, and to destroy them."
        )
    return (
        "Only what was changed at random on your own machine would leave. Nobody has to be trusted: the price holds "
        "against everybody, the server too."
    )


def sent_as_is(document: PeopleDocument, *, what: str, made: str) -> str:
    """Say what leaves in a kind that trusts the server: `what` is sent, and everybody's becomes what is `made`."""
    return (
        f"If you accept, your machine sends {what} to the server, unchanged. You would have to trust the server: it "
        f"promises to keep that only until at least {document.min_count} people have sent theirs, to turn these into "
        f"{made} with random noise added, to let nothing else out, and to destroy what you sent."
    )


def sent_in_shares(document: PeopleDocument, *, what: str, made: str, proved: str, size: int = 0) -> str:
    """Say what leaves in a kind that trusts one of two servers: two shares of `what`, of which is `proved` so much, and
    everybody's becomes what is `made`. `size` is how many bytes that is, where it is known."""
    named = getattr(document, "helper", None)
    helper = f"helper {named}" if named else "helper"
    long = f", {spaced(size)} bytes in all" if size else ""
    return (
        f"If you accept, your machine splits {what} into two shares, each of which is chance alone, with a proof that "
        f"{proved}{long}. One share goes to the server, the other, sealed, to a second one, the "
        f"{helper}, which is said to belong to another institution. They check the proof and add everybody's shares "
        f"up without seeing any value. Once at least {document.min_count} people have sent theirs each server adds "
        f"random noise of its own, and only then they open {made}. You would have to trust that at least one of the "
        "two keeps its share to itself and adds its noise: both together could put your value back together."
    )


def changed_here(*, does: str, changes: str, then: str) -> str:
    """Say what leaves in a kind that trusts nobody: what the machine `does` first, what it then `changes` at random,
    and what becomes of it."""
    return (
        f"If you accept, your own machine {does}changes {changes} at random, so strongly that the price of this task "
        f"holds against everybody, the server too. Only what was changed leaves. {then}"
    )


def what_somebody_could_learn(*, trusted: bool, epsilon: float, delta: float = 0.0) -> str:
    """The price as odds, the same for every kind. Who holds the values as they are needs no guess: a trusted server is
    not among those this is about."""
    seen = what_is_seen(trusted=trusted)
    return meaning(epsilon, delta).sentence(which="which of two answers you gave", seen=seen)


def what_is_seen(*, trusted: bool) -> str:
    """Say what somebody has seen whom the price keeps from guessing."""
    return "the answer" if trusted else "everything you send"


PRICE = "Price: "  #: begins the line of the price, so that a page which shows it elsewhere can leave it out
#: what every price is
IN_ALL = "This is all it may ever cost you, over every part of the task."


def what_the_price_means(document: PeopleDocument) -> str:
    """The price, and what somebody who already suspects something about you could learn for it at most."""
    epsilon, delta = document.epsilon, document.delta
    learned = what_somebody_could_learn(trusted=document.server != "untrusted", epsilon=epsilon, delta=delta)
    large = large_delta(delta, document.min_count)
    told = f"{PRICE}epsilon {figure(epsilon)}{f', delta {figure(delta)}' if delta else ''}. {learned} {IN_ALL}"
    return f"{told} {large}".strip()


#: begins the line of what mixing adds, so that a page which shows it elsewhere can leave it out
MIXED = "Mixed with the others': "


def what_mixing_adds(document: PeopleDocument) -> str:
    """Say what somebody could learn at most of reports that nobody can assign, and on what that rests; nothing where a
    document does not promise it."""
    mixed = document.mixed if isinstance(document, MixedDocument) else None
    if mixed is None:
        return ""
    assert isinstance(document, MixedDocument)  # noqa: S101
    crowd, honest = document.deciding_crowd, document.honest
    apart = "" if crowd.partitions == 1 else " in each part of the people"
    often = meaning(mixed.epsilon, mixed.delta).how_often
    return (
        f"{MIXED}if whoever sees the answers cannot tell whose is whose and asked everybody the same, and at least "
        f"{spaced(honest)} of {spaced(crowd.least)}{apart} followed the rules and hid where they sent from, as a "
        f"machine without a proxy does not, that guess is right {often} (epsilon {figure(mixed.epsilon)}, delta "
        f"{figure(mixed.delta)}). Nobody can check this, and it fails if the task ends before it is complete; so "
        "your machine charges the price above, which "
        f"holds whatever anybody does. An answer waits a random time of up to {spaced(mixed.delay_seconds)} seconds, "
        "from one range for everybody: your own setting, which may be longer, does not count here."
    )


def how_many(document: PeopleDocument) -> str:
    """Say when an answer is made."""
    limit = f" (at most {document.max_count})" if document.max_count else ""
    end = document.deadline
    until = "" if end is None else f"{end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    deadline = f", or nothing at all if that has not happened by {until}" if until else ""
    return f"An answer is made once {document.min_count} people have contributed{limit}{deadline}."


def who_asks(document: PeopleDocument) -> str:
    """Name, purpose and contact as the requestor wrote them."""
    name = (document.name or "").strip()
    pieces = [
        f"Name: {name}{'' if name.endswith(('.', '?', '!')) else '.'}" if name else "",
        f"Purpose: {document.purpose}" if document.purpose else "",
        f"Contact: {document.contact}" if document.contact else "",
    ]
    return " ".join(piece for piece in pieces if piece)


def what_else_is_told(document: PeopleDocument) -> str:
    """Say what is released beside the answer, inside the same price."""
    told = [
        "how many people have no value" if getattr(document, "missing", "refuse") == "count" else "",
        "on how many machines this query fails, by kind of error" if document.diagnostics is not None else "",
    ]
    pieces = [piece for piece in told if piece]
    return f"Released too, changed at random and inside the same price: {'; '.join(pieces)}." if pieces else ""


def what_taking_part_tells(document: PeopleDocument) -> str:
    """Say what is known of somebody already by that they take part, whatever they send."""
    if not getattr(document, "taking_part_tells", False):
        return ""
    failing = ", or on whose machine the query fails," if document.diagnostics is not None else ""
    return (
        f"Only somebody who has a value for this{failing} can agree to it: that you take part tells that you have one, "
        "and the price does not cover that. A standing rule agrees without looking; if you then have none, your "
        "machine sends a stand-in, such as the middle of the range."
    )


def together(document: PeopleDocument, *, leaves: str, choice: DocumentChoice[Any] | RuledChoice | None = None) -> str:
    """The whole explanation. `leaves` says what leaves, to whom, and what becomes of it; `choice` which of several ways
    is taken, and why."""
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
        "" if choice is None else choice.sentence,
        what_else_is_told(document),
        how_many(document),
        seen,
        what_taking_part_tells(document),
        what_the_price_means(document),
        what_mixing_adds(document),
        "Nothing leaves before you agree.",
    ]
    return "\n".join(s for s in sentences if s)

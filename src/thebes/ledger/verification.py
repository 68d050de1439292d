"""Does everything still fit: the chain with its hashes, and every balance with a replay of the chain.

What must stay true: the replay knows nothing of filters and prices; it only adds up what the entries say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from thebes.ledger import journal
from thebes.ledger.filters import firm
from thebes.ledger.journal import Head, JournalEntry
from thebes.ledger.losses import loss_of_text
from thebes.ledger.store import ALL, ITSELF, Books, Transaction
from thebes.privacy.faults import ThebesError

#: After this many differences a ledger is plainly broken and the rest is not listed.
_ENOUGH = 50


@dataclass
class Replayed(Books):
    """The books that a journal amounts to. `capped`: (block, spender) where a cap was asked, from which moment on the
    ledger keeps a sum of its own for them: without it the cap would hold nobody. `places`: where each block counts."""

    capped: set[tuple[str, str]] = field(default_factory=set)
    places: dict[str, tuple[str, ...]] = field(default_factory=dict)


def findings(t: Transaction, known: Iterable[Head]) -> tuple[tuple[str, ...], Head]:
    """Every difference between journal, balances and remembered heads, as sentences; and the head."""
    standing = t.standing()
    if standing is None:
        return ("the ledger has no head record",), Head(0, journal.BEGINNING)
    found = list(journal.chain_findings(t.entries(), standing.head, known))
    live = t.books()
    replayed, troubles = replay(t.entries())
    found += troubles
    found += differences(replayed, live)
    if len(found) > _ENOUGH:
        found = [*found[:_ENOUGH], f"and {len(found) - _ENOUGH} more"]
    return tuple(found), standing.head


def replay(rows: Iterable[tuple[int, str, str]]) -> tuple[Replayed, list[str]]:
    """The books that the journal amounts to, and entries that cannot have been written by a ledger."""
    books, troubles = Replayed(), []
    for row in rows:
        try:
            (entry,) = journal.read([row])
            _APPLY[entry.event](books, entry.facts)
            troubles += [f"entry {entry.number}: {trouble}" for trouble in _overdrawn(books, entry)]
        except (KeyError, TypeError, ValueError, AttributeError, ThebesError):
            troubles.append(f"entry {row[0]} does not fit what came before it")
    return books, troubles


def differences(replayed: Replayed, live: Books) -> Iterator[str]:
    """Yield what the ledger holds and its journal does not say, or the other way round."""
    if replayed.ledger != live.ledger:
        yield "the ledger's identity is not the one in its journal"
    if replayed.frozen != live.frozen:
        yield f"the ledger is {'frozen' if live.frozen else 'not frozen'}, its journal says otherwise"
    yield from _unlike("block", replayed.blocks, live.blocks)
    yield from _unlike("cap", replayed.caps, live.caps)
    yield from _unlike("claim", replayed.claims, live.claims)
    yield from _unlike("charge", replayed.charges, live.charges)
    yield from _unlike("part", replayed.parts, live.parts)
    yield from _unlike("balance", _with_usage(replayed), live.meters)


def _unlike(what: str, said: dict[Any, Any], held: dict[Any, Any]) -> Iterator[str]:
    for key in sorted(said.keys() | held.keys(), key=repr):
        if said.get(key) != held.get(key):
            name = " ".join(repr(part) for part in (key if isinstance(key, tuple) else (key,)) if part != "")
            if key not in held:
                yield f"{what} {name} is in the journal but not in the ledger"
            elif key not in said:
                yield f"{what} {name} is in the ledger but not in the journal"
            else:
                yield f"{what} {name} differs: journal {said[key]}, ledger {held[key]}"


def _with_usage(replayed: Replayed) -> dict[Any, Any]:
    """The replayed balances, with the sums per spender that the ledger keeps for caps."""
    meters = dict(replayed.meters)
    if not replayed.capped:
        return meters
    places: dict[str, list[str]] = {}
    for block, _, place in replayed.meters:
        places.setdefault(block, []).append(place)
    sums = {(block, spender, place): (0, 0) for block, spender in replayed.capped for place in places[block]}
    for (number, block, place), (reserved, spent) in replayed.charges.items():
        key = (block, replayed.claims[number][1], place)
        if key in sums:
            sums[key] = (sums[key][0] + reserved, sums[key][1] + spent)
    return meters | {key: (None, *both, False) for key, both in sums.items()}


# --- one small function per kind of entry ---------------------------------------------------------------


def _begin(books: Replayed, facts: dict[str, Any]) -> None:
    if books.ledger:
        raise ValueError
    books.ledger = facts["ledger"]


def _open(books: Replayed, facts: dict[str, Any]) -> None:
    name = facts["block"]
    if name in books.blocks:
        raise ValueError
    epsilon, delta = int(facts["epsilon"]), int(facts["delta"])
    books.blocks[name] = (facts["unit"], facts["adjacency"], facts["filter"], epsilon, delta, "open")
    books.places[name] = tuple(facts["capacity"])
    for place, capacity in facts["capacity"].items():
        books.meters[name, ITSELF, place] = (int(capacity), 0, 0, firm(facts["filter"]))


def _retire(books: Replayed, facts: dict[str, Any]) -> None:
    books.blocks[facts["block"]] = (*books.blocks[facts["block"]][:5], "retired")


def _cap(books: Replayed, facts: dict[str, Any]) -> None:
    delta = None if facts["delta"] is None else int(facts["delta"])
    books.caps[facts["spender"], facts["block"] or ALL] = (int(facts["epsilon"]), delta)


def _reserve(books: Replayed, facts: dict[str, Any]) -> None:
    number, spender = facts["claim"], facts["spender"]
    if number in books.claims:
        raise ValueError
    terms = (facts["key"], spender, facts["purpose"], facts["unit"], facts["adjacency"])
    books.claims[number] = (*terms, "reserved", facts["loss"], facts["loss"])
    for block, place, steps in _spread(facts["charges"]):
        books.charges[number, block, place] = (0, 0)
        _moved(books, number, block, place, steps, 0)
        if (spender, block) in books.caps or (spender, ALL) in books.caps:
            books.capped.add((block, spender))


def _acquire(books: Replayed, facts: dict[str, Any]) -> None:
    _state(books, facts["claim"], "acquired", None)


def _consume(books: Replayed, facts: dict[str, Any]) -> None:
    number = facts["claim"]
    loss_of_text(facts["left"])
    _state(books, number, facts["state"], facts["left"])
    if facts["part"] is not None:
        if (number, facts["part"]) in books.parts:
            raise ValueError
        books.parts[number, facts["part"]] = facts["loss"]
    for block, place, steps in _spread(facts["charges"]):
        _moved(books, number, block, place, -steps, steps)
    for block, place, steps in _spread(facts["returned"]):
        _moved(books, number, block, place, -steps, 0)


def _release(books: Replayed, facts: dict[str, Any]) -> None:
    _state(books, facts["claim"], facts["state"], None)
    for block, place, steps in _spread(facts["returned"]):
        _moved(books, facts["claim"], block, place, -steps, 0)


def _freeze(books: Replayed, facts: dict[str, Any]) -> None:
    books.frozen = True


def _thaw(books: Replayed, facts: dict[str, Any]) -> None:
    books.frozen = False
    for settled in facts["settled"]:
        _state(books, settled["claim"], "closed", settled.get("left"))
        for block, place, steps in _spread(settled["charges"]):
            _moved(books, settled["claim"], block, place, -steps, steps)


_APPLY = {
    "begin": _begin,
    "open": _open,
    "retire": _retire,
    "cap": _cap,
    "reserve": _reserve,
    "acquire": _acquire,
    "consume": _consume,
    "release": _release,
    "freeze": _freeze,
    "thaw": _thaw,
}


def _spread(groups: list[dict[str, Any]]) -> Iterator[tuple[str, str, int]]:
    for group in groups:
        for block in group["blocks"]:
            for place, steps in group["amounts"].items():
                amount = int(steps)
                if amount < 0:
                    raise ValueError
                yield block, place, amount


def _moved(books: Replayed, number: int, block: str, place: str, to_reserved: int, to_spent: int) -> None:
    reserved, spent = books.charges[number, block, place]
    books.charges[number, block, place] = (reserved + to_reserved, spent + to_spent)
    capacity, reserved, spent, firm = books.meters[block, ITSELF, place]
    books.meters[block, ITSELF, place] = (capacity, reserved + to_reserved, spent + to_spent, firm)


def _state(books: Replayed, number: int, state: str, left: str | None) -> None:
    fields = books.claims[number]
    if fields[5] not in ("reserved", "acquired"):
        raise ValueError
    books.claims[number] = (*fields[:5], state, fields[6], fields[7] if left is None else left)


def _overdrawn(books: Replayed, entry: JournalEntry) -> Iterator[str]:
    """Yield the blocks that a claim charged beyond what they hold: in any place of a firm one, in all of another."""
    if entry.event == "reserve":
        for block in dict.fromkeys(block for block, _, _ in _spread(entry.facts["charges"])):
            meters = [books.meters[block, ITSELF, place] for place in books.places[block]]
            within = [capacity is None or reserved + spent <= capacity for capacity, reserved, spent, _ in meters]
            if not (all if all(meter[3] for meter in meters) else any)(within):
                yield f"block {block!r} was charged beyond its capacity"

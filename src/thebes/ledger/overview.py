"""The overview of what a person wants to know of a ledger: who spent how much of a block, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from thebes.ledger.states import ClaimState
from thebes.ledger.store import ITSELF, Books


@dataclass(frozen=True, slots=True)
class Use:
    """One spender's claims for one purpose. `most` is the largest part of a single block's capacity they consumed:
    blocks hold different rows, so what is spent in two of them does not add up."""

    spender: str
    purpose: str
    claims: int
    open: int
    blocks: int
    most: float


def uses(books: Books) -> list[Use]:
    """All claims by spender and purpose."""
    spent: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for (number, block, place), (_, amount) in books.charges.items():
        whose = books.claims[number][1:3]
        places = spent.setdefault(whose, {}).setdefault(block, {})
        places[place] = places.get(place, 0) + amount
    numbers: dict[tuple[str, str], list[ClaimState]] = {}
    for fields in books.claims.values():
        numbers.setdefault(fields[1:3], []).append(ClaimState(fields[5]))
    meters: dict[str, dict[str, tuple[int | None, int, int, bool]]] = {}
    for (block, whose_meter, place), values in books.meters.items():
        if whose_meter == ITSELF:
            meters.setdefault(block, {})[place] = values
    return [
        Use(
            *whose,
            claims=len(states),
            open=sum(state.open for state in states),
            blocks=len(spent.get(whose, {})),
            most=max((_share(meters[b], places) for b, places in spent.get(whose, {}).items()), default=0.0),
        )
        for whose, states in sorted(numbers.items())
    ]


def _share(meters: dict[str, tuple[int | None, int, int, bool]], spent: dict[str, int]) -> float:
    shares = [Fraction(spent.get(place, 0), capacity) for place, (capacity, _, _, _) in meters.items() if capacity]
    firm = all(values[3] for values in meters.values())
    return float((max if firm else min)(shares or [Fraction(0)]))

"""New inputs from old ones, by bytes or, where JSON is inside, by its values: the same seed makes the same inputs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

MOST_BYTES = 2**14
_ODD = (b"", b"\0", b"\xff", b"-", b"NaN", b"1e999", b"9" * 400, b"null", b"[]", b"{}", b'"', b"\\ud800", b"[" * 2000)
_ENDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf")),
    *(2**31, 2**53, 2**63, -(2**63) - 1, 10**19, 10**400, "", "x", "\0", "\ud800", "_", "1", "é" * 300, "a.b", "ſ"),
    *([], {}, [[]], [0] * 300, {"": None}, [None], ["x", "x"]),
)


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """A change by values or by bytes, as it falls; `others` give pieces."""
    changed = revalued(data, chance) if chance.random() < 0.5 else None
    return by_bytes(data, others, chance) if changed is None else changed


def revalued(data: bytes, chance: random.Random) -> bytes | None:
    """One to three values of the first JSON object inside exchanged, left out or doubled; None without one."""
    start = data.find(b"{")
    if start < 0 or len(data) > MOST_BYTES:
        return None
    text = data[start:].decode("latin-1")
    try:
        body, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    try:
        for _ in range(chance.choice((1, 1, 2, 3))):
            places = list(_places(body))
            if places:
                _change(*chance.choice(places), places, chance)
        made = json.dumps(body, separators=(",", ":")).encode("ascii") + text[end:].encode("latin-1")
    except RecursionError:  # nested too deeply to be written by now
        return None
    return (data[:start] + made)[:MOST_BYTES]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything in lists and objects, as (where, under which name or number)."""
    stack = [value]
    while stack:
        holder = stack.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                stack.append(holder[key])


def _change(holder: Any, key: Any, places: list[tuple[Any, Any]], chance: random.Random) -> None:
    way = chance.randrange(5)
    elsewhere, there = chance.choice(places)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[chance.choice((str(there), str(key) + "s", "", "type"))] = deepcopy(chance.choice(_VALUES))
    elif way == 1 and len(holder) < 1000:
        holder += deepcopy(holder)
    elif way == 2:
        holder[key] = deepcopy(elsewhere[there])
    elif way == 3 and isinstance(holder[key], (int, float)):
        holder[key] = chance.choice(
            (-holder[key], holder[key] + 1, holder[key] * 1000, [holder[key]], str(holder[key]))
        )
    else:
        holder[key] = deepcopy(chance.choice(_VALUES))


def by_bytes(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """One to four changes, some with a piece of another input."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        start = chance.randrange(len(changed) + 1)
        end = min(len(changed), start + chance.choice((0, 1, 1, 2, 4, 8, 64)))
        way = chance.randrange(7)
        if way == 0:
            changed[start:end] = chance.randbytes(end - start)
        elif way == 1:
            del changed[start:end]
        elif way == 2:
            changed[start:start] = changed[start:end] * chance.choice((1, 2, 100))
        elif way == 3:
            other = chance.choice(others)
            cut = chance.randrange(len(other) + 1)
            changed[start:end] = other[cut : cut + chance.choice((1, 4, 16, 256))]
        elif way == 4:
            changed[start:end] = chance.choice(_ODD)
        elif way == 5 and start < len(changed):
            changed[start] ^= 1 << chance.randrange(8)
        else:
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(_ENDS) % 256**width
            changed[start : start + width] = number.to_bytes(width, chance.choice(("little", "big")))
    return bytes(changed[:MOST_BYTES])

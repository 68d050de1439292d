"""JSON that somebody else wrote, read as it stands or not at all.

What must stay true: whoever reads the same text elsewhere reads the same from it. Readers differ in which of two values
under one name counts, and in what becomes of NaN and of half a character; so none of these is read. And a text of many
values is not read at all: each takes many times the room of its letters.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MOST_VALUES = 2**23  #: of one text
_LONGEST = 40  #: characters of a name that an error shows


class NotJSON(ValueError):
    """A text that is not JSON as it is read here. Its words follow the text's name: `is not JSON (line 1, ...)`."""


def read_json(raw: str | bytes, *, finite: bool = False, most_values: int = MOST_VALUES) -> Any:
    """The value that stands in a text (bytes are UTF-8); NotJSON says why there is none. `1e999` is JSON and becomes an
    infinite number, for whoever looks at each number anyway; `finite` refuses it."""
    if values_in(raw) > most_values:
        raise NotJSON("holds too many values")
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8")
        found = (_FINITE if finite else _PLAIN).decode(text)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except NotJSON:
        raise
    except json.JSONDecodeError as error:
        raise NotJSON(f"is not JSON (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError:
        raise NotJSON("is not JSON: it is not text in UTF-8") from None
    except UnicodeEncodeError:
        raise NotJSON("holds half of a character") from None
    except RecursionError:
        raise NotJSON("is nested too deeply") from None
    except ValueError:  # so many digits are not even counted
        raise NotJSON("holds a number that is too long") from None
    return found


def values_in(raw: str | bytes) -> int:
    """No fewer values than JSON holds, from its text alone."""
    signs: Any = (",", "[", "{") if isinstance(raw, str) else (b",", b"[", b"{")
    return 1 + sum(raw.count(sign) for sign in signs)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotJSON(f"names {twice[:_LONGEST]!r} twice; which one is meant?")
    return found


def _no_number(name: str) -> NoReturn:
    raise NotJSON(f"is not JSON: {name} is not a number of JSON")


def _small(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJSON("holds a number that is too large")
    return number


_PLAIN = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_number)
_FINITE = json.JSONDecoder(object_pairs_hook=_once_each, parse_constant=_no_number, parse_float=_small)

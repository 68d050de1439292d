"""From what stands on a command line to the options of a collector, and from "2h" to seconds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thebes.collectors.declaration import Option
from thebes.privacy.faults import Mistake

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def read_options(known: Sequence[Option], arguments: Sequence[str]) -> dict[str, Any]:
    """The value of every option; a Mistake names the one that is missing, unknown or cannot be read."""
    by_name = {option.name: option for option in known}
    given: dict[str, list[Any]] = {}
    waiting = list(arguments)
    while waiting:
        word, joined, value = waiting.pop(0).partition("=")
        option = by_name.get(word.removeprefix("--")) if word.startswith("--") else None
        if option is None:
            offered = ", ".join(f"--{name}" for name in by_name) or "none"
            raise Mistake(word[:60], f"is not an option of this collector; it has: {offered}")
        if option.kind == "flag":
            if joined:
                raise Mistake(word, "takes no value")
            given[option.name] = [True]
            continue
        if not joined:
            if not waiting or waiting[0].startswith("--"):
                raise Mistake(word, "needs a value")
            value = waiting.pop(0)
        given.setdefault(option.name, []).append(_value(option, value))
    return {option.name: _settled(option, given.get(option.name)) for option in known}


def read_interval(text: str) -> float:
    """Seconds in "30s", "15m", "2h", "1d", "1w"."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None or int(found[1]) == 0:
        raise Mistake("--every", 'must be a number and a unit, such as "30s", "15m", "2h", "1d"')
    return float(int(found[1]) * _SECONDS[found[2]])


def _value(option: Option, text: str) -> Any:
    if option.kind == "path":
        path = Path(text).expanduser().absolute()
        if not path.exists():
            raise Mistake(f"--{option.name}", f"there is nothing at {text!r}")
        return str(path)
    if option.kind == "number":
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise Mistake(f"--{option.name}", "must be a number")
        return number
    return text


def _settled(option: Option, values: list[Any] | None) -> Any:
    if values is None:
        if option.required:
            raise Mistake(f"--{option.name}", f"is needed: {option.description}")
        return option.default if option.default is not None else False if option.kind == "flag" else _none(option)
    if option.several:
        return values
    if len(values) > 1 and option.kind != "flag":
        raise Mistake(f"--{option.name}", "is given more than once")
    return values[0]


def _none(option: Option) -> list[Any] | None:
    return [] if option.several else None

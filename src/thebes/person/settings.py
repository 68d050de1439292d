"""Settings that the person decided about their machine: HOME/person.toml, read exactly as written.

What must stay true: an unknown or wrong entry is refused by name; nothing falls back to a more generous figure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

from thebes.database import private_files
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.spelling import did_you_mean
from thebes.tasks.site_document import SITE_NAME
from thebes.wire.address import base_url
from thebes.wire.socks import Proxy

FILE = "person.toml"
DIRECT = "none"  #: said instead of a proxy by who wants none any more
TRUSTS = ("local", "trusted", "split")  #: the budgets, by whom one has to trust
LIMITS = ("epsilon", "delta", "year_epsilon", "year_delta", "overall_epsilon", "overall_delta")
NEEDED = ("epsilon", "delta", "overall_epsilon", "overall_delta")  #: in a budget of two servers' own
_NOISED = {"local": "noised on this machine", "trusted": "noised by a server", "split": "noised by two servers"}
_SETTINGS = ("coordinator", "proxy", "delay_seconds", "period_days", "notices", "task", *TRUSTS, "caps", "helpers")
SMALLEST = Decimal("0.000001")  #: epsilon of a limit


@dataclass(frozen=True, slots=True)
class SpendingLimit:
    """The most that may be spent: in one period, within any 365 days (None: as much as ever), and ever."""

    epsilon: Decimal = Decimal(30)
    delta: Decimal = Decimal("0.001")
    overall_epsilon: Decimal = Decimal(300)
    overall_delta: Decimal = Decimal("0.01")
    year_epsilon: Decimal | None = None
    year_delta: Decimal | None = None

    @property
    def year(self) -> tuple[Decimal, Decimal]:
        """The epsilon and the delta of a year."""
        return (
            self.overall_epsilon if self.year_epsilon is None else self.year_epsilon,
            self.overall_delta if self.year_delta is None else self.year_delta,
        )


@dataclass(frozen=True, slots=True)
class RequestorCap:
    """The most one requestor may have in one period; the name `*` stands for everyone without a cap of their own."""

    epsilon: Decimal
    delta: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TaskShare:
    """The most that one task may take without a second question. Somebody chose it, so they know their limits."""

    epsilon: Decimal
    delta: Decimal

    def covers(self, epsilon: float | Decimal, delta: float | Decimal) -> bool:
        """Return whether a price lies within it."""
        return exact.declared("epsilon", epsilon) <= self.epsilon and exact.declared("delta", delta) <= self.delta


@dataclass(frozen=True, slots=True)
class PersonSettings:
    """`task` is the share of one task; None: nobody chose limits yet. `local` bounds what is noised on this machine,
    `trusted` what a server promises to noise, `split` what at least one of two does; None: that is part of `trusted`.
    `delay_seconds` is the longest random wait before a contribution is sent. Where there is a `proxy` nothing goes any
    other way. `notices`: once a day the number of new questions is said."""

    coordinator: str | None = None
    proxy: str | None = None
    delay_seconds: float = 120.0
    period_days: int = 30
    notices: bool = False
    task: TaskShare | None = None
    local: SpendingLimit = SpendingLimit()
    trusted: SpendingLimit = SpendingLimit()
    split: SpendingLimit | None = None  #: on top of the others, so nobody has it who did not ask for it
    caps: Mapping[str, RequestorCap] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)  #: fingerprints that the person confirmed, by name

    @property
    def hides_sender(self) -> bool:
        """Return whether all that is sent goes through a proxy, and no two things that are sent by the same way. A
        proxy that keeps nothing apart links them, and may belong to one person alone."""
        return self.proxy is not None and Proxy.read(self.proxy).isolates

    def allowance(self, trust: str) -> SpendingLimit:
        """Return the limit of a budget. Where two servers have none of their own, it is that of the one they are part
        of."""
        limits = {"local": self.local, "trusted": self.trusted, "split": self.split or self.trusted}
        return limits[trust]

    def unreached(self) -> list[str]:
        """Name each limit that is above one for a longer time: that one is reached first, so it never counts."""
        told = []
        for trust in TRUSTS:
            limit = getattr(self, trust)
            if limit is None:
                continue
            year_epsilon, year_delta = limit.year
            for name, *limits in (
                ("epsilon", limit.epsilon, year_epsilon, limit.overall_epsilon),
                ("delta", limit.delta, year_delta, limit.overall_delta),
            ):
                spans = reversed([*zip(("in one period", "in a year", "for ever"), limits, strict=True)])
                pairs = [(*shorter, *longer) for longer, shorter in combinations(spans, 2)]
                for short, one, long, other in [pair for pair in pairs if pair[1] > pair[3]][:1]:
                    told.append(
                        f"What is {_NOISED[trust]}: {name} {short} ({figure(float(one))}) is above {name} {long} "
                        f"({figure(float(other))}), which is reached first, so the larger limit never counts."
                    )
        return told

    def budgets(self, trust: str) -> tuple[str, ...]:
        """Name the budgets that a task draws on, its own first."""
        return (trust, "trusted") if trust == "split" and self.split is None else (trust,)

    def cap_of(self, requestor: str) -> RequestorCap | None:
        """Return the cap that holds this name, however it is capitalised; of several the tightest."""
        alike = [cap for who, cap in self.caps.items() if who.casefold() == requestor.casefold()]
        return min(alike, key=lambda cap: (cap.epsilon, cap.delta or 0), default=self.caps.get("*"))

    @classmethod
    def read(cls, home: Path) -> PersonSettings:
        """The settings of a home; the defaults where there is no file."""
        path = home / FILE
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        try:
            body = tomllib.loads(text, parse_float=Decimal)
        except tomllib.TOMLDecodeError as error:
            raise Mistake(FILE, f"is not TOML: {error}") from None
        return cls().changed(body)

    def changed(self, body: Mapping[str, Any]) -> PersonSettings:
        """These settings with the entries of `body` in place of the old; `caps` are replaced as a whole."""
        found: dict[str, Any] = {}
        for name, value in body.items():
            if name == "coordinator":
                if not isinstance(value, str):
                    raise Mistake("coordinator", "must be an address")
                base_url(value)
                found[name] = value
            elif name == "proxy":
                found[name] = None if value == DIRECT else str(Proxy.read(value))
            elif name == "delay_seconds":
                found[name] = float(_within(name, value, 0, 86_400))
            elif name == "period_days":
                days = read_number(name, value)
                if days % 1 or not 1 <= days <= 3660:
                    raise Mistake(name, "must be a whole number of days from 1 to 3660")
                found[name] = int(days)
            elif name == "notices":
                if not isinstance(value, bool):
                    raise Mistake(name, "must be true or false")
                found[name] = value
            elif name == "task":
                found[name] = _share(value)
            elif name == "split":
                found[name] = _own(value)
            elif name in TRUSTS:
                found[name] = replace(self.allowance(name), **_allowance(name, value))
            elif name == "caps":
                found[name] = _caps(value)
            elif name == "helpers":
                found[name] = _helpers(value)
            else:
                raise Mistake(name, f"is not a setting{did_you_mean(name, _SETTINGS)}")
        return replace(self, **found)

    def write(self, home: Path) -> None:
        """Into person.toml, whole or not at all."""
        private_files.put(home / FILE, self.as_toml())

    def as_json(self) -> dict[str, Any]:
        return {
            "coordinator": self.coordinator,
            "proxy": self.proxy,
            "delay_seconds": self.delay_seconds,
            "period_days": self.period_days,
            "notices": self.notices,
            "task": None
            if self.task is None
            else {"epsilon": float(self.task.epsilon), "delta": float(self.task.delta)},
            **{trust: _told(getattr(self, trust)) for trust in TRUSTS},
            "caps": {
                who: {"epsilon": float(cap.epsilon), "delta": None if cap.delta is None else float(cap.delta)}
                for who, cap in self.caps.items()
            },
            "helpers": dict(self.helpers),
        }

    def as_toml(self) -> str:
        lines = [
            "# What this machine may do in its owner's name. Epsilon and delta are what may be spent per period",
            "# of period_days, in a year and ever (overall): `local` is noised here, `trusted` by a server that",
            "# promises to, `split` (part of `trusted` where it is not said) by two, one of which must. [task] is what",
            "# one task may take without a second question.",
        ]
        if self.coordinator is not None:
            lines.append(f"coordinator = {_text(self.coordinator)}")
        if self.proxy is not None:
            lines.append(f"proxy = {_text(self.proxy)}")
        lines += [f"delay_seconds = {self.delay_seconds}", f"period_days = {self.period_days}"]
        if self.notices:  # off it is not written, so that an older version reads this file
            lines.append("notices = true")
        if self.task is not None:
            lines += ["", "[task]", f"epsilon = {_plain(self.task.epsilon)}", f"delta = {_plain(self.task.delta)}"]
        for trust in TRUSTS:
            if getattr(self, trust) is None:  # an older version reads this file then
                continue
            set_ = {name: value for name, value in _fields(self.allowance(trust)).items() if value is not None}
            lines += ["", f"[{trust}]", *(f"{name} = {_plain(value)}" for name, value in set_.items())]
        for who, cap in self.caps.items():
            lines += ["", f"[caps.{_text(who)}]", f"epsilon = {_plain(cap.epsilon)}"]
            lines += [] if cap.delta is None else [f"delta = {_plain(cap.delta)}"]
        if self.helpers:  # else an older version could not read this file
            lines += ["", "[helpers]", *(f"{_text(name)} = {_text(key)}" for name, key in self.helpers.items())]
        return "\n".join(lines) + "\n"


def _fields(allowance: SpendingLimit) -> dict[str, Decimal | None]:
    return {name: getattr(allowance, name) for name in LIMITS}


def _told(allowance: SpendingLimit | None) -> dict[str, float | None] | None:
    if allowance is None:
        return None
    return {name: None if value is None else float(value) for name, value in _fields(allowance).items()}


def _own(body: object) -> SpendingLimit | None:
    """Read the budget that two servers have of their own; None takes it back. Whoever sets one says all of it, so that
    nothing of it is more than they thought."""
    if body is None:
        return None
    limits = _allowance("split", body)
    if missing := [name for name in NEEDED if name not in limits]:
        raise Mistake("split", f"must say {', '.join(missing)}, too: a budget of its own takes nothing from another")
    return SpendingLimit(**limits)


def _share(body: object) -> TaskShare | None:
    if body is None:
        return None
    if not isinstance(body, Mapping) or set(body) != {"epsilon", "delta"}:
        raise Mistake("task", "must be a table of epsilon and delta")
    epsilon = read_number("task.epsilon", body["epsilon"])
    if epsilon < SMALLEST:
        raise Mistake("task.epsilon", f"must be at least {SMALLEST}")
    return TaskShare(epsilon, exact.delta(read_number("task.delta", body["delta"]), "task.delta"))


def _allowance(trust: str, body: object) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise Mistake(trust, f"must be a table of {', '.join(LIMITS)}")
    known, found = _fields(SpendingLimit()), dict[str, Any]()
    for name, value in body.items():
        if name not in known:
            raise Mistake(f"{trust}.{name}", f"is not a setting{did_you_mean(name, LIMITS)}")
        where = f"{trust}.{name}"
        if value is None and name.startswith("year_"):
            found[name] = None
            continue
        number = read_number(where, value)
        if name.endswith("epsilon") and number < SMALLEST:
            raise Mistake(where, f"must be at least {SMALLEST}")
        found[name] = number if name.endswith("epsilon") else exact.delta(number, where)
    return found


def _caps(body: object) -> dict[str, RequestorCap]:
    if not isinstance(body, Mapping):
        raise Mistake("caps", "must be a table of requestors")
    found = {}
    for who, cap in body.items():
        if not isinstance(who, str) or not who.isprintable() or not 0 < len(who) <= 200:
            raise Mistake("caps", "must be under printable names of requestors, of at most 200 characters")
        if not isinstance(cap, Mapping) or set(cap) - {"epsilon", "delta"} or "epsilon" not in cap:
            raise Mistake("caps", "must each have an epsilon, and may have a delta")
        epsilon = read_number("caps.epsilon", cap["epsilon"])
        if epsilon < 0:
            raise Mistake("caps.epsilon", "must not be negative")
        delta = exact.delta(read_number("caps.delta", cap["delta"]), "caps.delta") if "delta" in cap else None
        found[who] = RequestorCap(epsilon, delta)
    return found


def _helpers(body: object) -> dict[str, str]:
    if not isinstance(body, Mapping) or len(body) > 1000:
        raise Mistake("helpers", "must be a table of at most 1000 fingerprints, by the names of helpers")
    for name, key in body.items():
        if not isinstance(name, str) or not re.fullmatch(SITE_NAME, name):
            raise Mistake("helpers", "must be under the names of helpers, as they stand in documents")
        if not isinstance(key, str) or not re.fullmatch(r"[0-9a-f]{64}", key):
            raise Mistake(f"helpers.{name}", "must be a fingerprint: 64 hexadecimal digits")
    return dict(body)


def read_number(where: str, value: object) -> Decimal:
    """A number as written in TOML or JSON: not text, not true or false."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise Mistake(where, "must be a number")
    return exact.declared(where, value)


def _within(name: str, value: object, low: int, high: int) -> Decimal:
    number = read_number(name, value)
    if not low <= number <= high:
        raise Mistake(name, f"must lie between {low} and {high}")
    return number


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text if "." in text else f"{text}.0"


def _text(value: str) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)  # a TOML basic string takes the same escapes

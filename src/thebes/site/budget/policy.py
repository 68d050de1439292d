"""The policy of who may ask what, and how much: HOME/policy.toml, which only the steward writes.

What must stay true: whatever no rule allows is refused; a file that is not there, or cannot be read exactly as
written, allows nothing. A rule looks at who asks for what, never at data.
"""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.home import stamp

ANY = "*"
NOISES = ("site", "coordinator")
KEYS = ("requestors", "datasets", "kinds", "epsilon", "delta", "noise", "contexts", "steady")
LONGEST = 200  #: characters of a name
_LISTS = ("requestors", "datasets", "kinds", "noise", "contexts")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The facts that a rule is shown of a task."""

    requestor: str
    dataset: str
    kind: str
    noise: str


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """`requestors` may ask about `datasets` by `kinds` with noise added in one of the places of `noise`, together for
    no more than (epsilon, delta) at each data set. `contexts` are whose rows, of a data set whose rows are kept apart;
    without them it allows nothing there. Without a delta the data set's own stands. `steady` answers leave
    at whole seconds and do not say how long they took. `number` counts from 1 in the file."""

    number: int
    requestors: tuple[str, ...]
    datasets: tuple[str, ...]
    kinds: tuple[str, ...]
    epsilon: Decimal
    delta: Decimal | None = None
    noise: tuple[str, ...] = ("site",)
    contexts: tuple[str, ...] = ()
    steady: bool = False

    def __str__(self) -> str:
        return f"rule {self.number} of policy.toml"

    def covers(self, asked: TaskFacts) -> bool:
        """Return whether the rule speaks about this."""
        return (
            _in(asked.requestor, self.requestors)
            and _in(asked.dataset, self.datasets)
            and _in(asked.kind, self.kinds)
            and asked.noise in self.noise
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in the order of the file: the first that covers what is asked decides. `trouble` is why there are none."""

    rules: tuple[PolicyRule, ...] = ()
    trouble: str | None = None

    def rule(self, asked: TaskFacts) -> PolicyRule | None:
        """The rule that allows it; None where none does."""
        return next((rule for rule in self.rules if rule.covers(asked)), None)

    def missing(self, kinds: Sequence[str], datasets: Sequence[str]) -> str:
        """Say which rules name a kind or a data set that is not there, and so allow less than they seem to; nothing
        where none does."""
        known = {"kinds": (ANY, *kinds), "datasets": (ANY, *datasets)}
        return "; ".join(
            f"{rule} names {name!r} among its {key}, where there are only {', '.join(known[key][1:]) or 'none'}"
            for rule in self.rules
            for key in known
            for name in getattr(rule, key)
            if name not in known[key]
        )

    def refusal(self, asked: TaskFacts) -> str:
        """Say why nothing allows it, for whoever asked: nothing of what the file allows others."""
        for noise in NOISES:
            if (
                noise != asked.noise
                and self.rule(TaskFacts(asked.requestor, asked.dataset, asked.kind, noise)) is not None
            ):
                return f"the site's policy allows this only with noise added by the {noise}"
        return "the site's policy does not allow this"


class PolicyFile:
    """The policy in force, read anew when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: Any = ()
        self._policy = Policy(trouble="not read yet")

    def __call__(self) -> Policy:
        with self._lock:
            now = stamp(self._path)
            if now != self._stamp:
                self._policy, self._stamp = _of(self._path), now
            return self._policy


def read(text: str) -> tuple[PolicyRule, ...]:
    """The rules in a policy file, or a Mistake that names the line or the rule and its key."""
    try:
        body = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise Mistake("policy.toml", f"is not TOML: {str(error)[:200]}") from None
    for name in body:
        if name != "allow":
            raise Mistake("policy.toml", f"{_at(text, name)}{name[:40]!r} is unknown; rules begin with [[allow]]")
    rules = body.get("allow", [])
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise Mistake("policy.toml", f"{_at(text, 'allow')}rules begin with [[allow]], in double brackets")
    return tuple(_rule(number, rule, text) for number, rule in enumerate(rules, 1))


def appended(text: str, rule: Mapping[str, Any]) -> str:
    """The text of a policy with one rule more; a Mistake where either is none."""
    import json

    def spelled(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, list)) else str(value)

    lines = ["[[allow]]", *(f"{key} = {spelled(value)}" for key, value in rule.items() if value is not None)]
    whole = text.rstrip("\n") + ("\n\n" if text.strip() else "") + "\n".join(lines) + "\n"
    read(text)
    read(whole)
    return whole


def _of(path: Path) -> Policy:
    try:
        return Policy(read(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Policy(trouble="there is no policy.toml, so everything is refused")
    except (OSError, UnicodeError) as error:
        return Policy(trouble=f"policy.toml cannot be read ({type(error).__name__}), so everything is refused")
    except Mistake as mistake:
        return Policy(trouble=f"{mistake}; everything is refused until that is mended")


def _rule(number: int, body: Mapping[str, Any], text: str) -> PolicyRule:
    def wrong(key: str, message: str) -> Mistake:
        return Mistake("policy.toml", f"{_line(text, number, key)}rule {number}, {key[:40]}: {message}")

    for key in body:
        if key not in KEYS:
            raise wrong(key, f"is not one of {', '.join(KEYS)}")
    for key in ("requestors", "datasets", "kinds", "epsilon"):
        if key not in body:
            raise wrong(key, "is missing")
    lists: dict[str, tuple[str, ...]] = {}
    for key in _LISTS:
        if key in body:
            value = [body[key]] if isinstance(body[key], str) else body[key]
            if not isinstance(value, list) or not value or not all(_named(name) for name in value):
                raise wrong(key, f'must be a list of names, or ["{ANY}"] for all')
            lists[key] = tuple(value)
    if not set(lists.get("noise", ())) <= set(NOISES):
        raise wrong("noise", f"may name {' and '.join(NOISES)}")
    if not isinstance(body.get("steady", False), bool):
        raise wrong("steady", "must be true or false")
    amounts: dict[str, Decimal | None] = {"delta": None}
    for key, reader in (("epsilon", exact.epsilon), ("delta", exact.delta)):
        if key in body:
            value = body[key]
            if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
                raise wrong(key, "must be a number")
            try:
                amounts[key] = reader(value)
            except Mistake as mistake:
                raise wrong(key, mistake.message) from None
    return PolicyRule(
        number,
        lists["requestors"],
        lists["datasets"],
        lists["kinds"],
        amounts["epsilon"] or Decimal(0),
        amounts["delta"],
        lists.get("noise", ("site",)),
        lists.get("contexts", ()),
        bool(body.get("steady", False)),
    )


def contexts_of(rule: PolicyRule, declared: Sequence[str]) -> tuple[str, ...]:
    """In which of the contexts that a data set keeps apart a rule lets somebody ask (none where it keeps none); a
    Refusal where the rule does not say, or speaks of contexts that are not there."""
    if not declared and rule.contexts:
        raise Refusal(f"{rule} is for some contexts alone, and this data set has none; its steward adds a rule without")
    if declared and not rule.contexts:
        raise Refusal(f"{rule} does not say in which contexts of this data set one may ask; its steward adds contexts")
    found = tuple(name for name in declared if _in(name, rule.contexts))
    if declared and not found:
        raise Refusal(f"{rule} names no context that this data set has")
    return found


def _in(name: str, names: tuple[str, ...]) -> bool:
    return name in names or ANY in names


def _named(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()


def _at(text: str, key: str) -> str:
    found = next((place for place, line in enumerate(text.splitlines(), 1) if _says(line, key)), None)
    return "" if found is None else f"line {found}: "


def _line(text: str, number: int, key: str) -> str:
    """Say where in the file a rule says something; where it does not, where the rule begins."""
    begun, begins = 0, 0
    for place, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*\[\[\s*allow\s*\]\]", line):
            begun += 1
            begins = place if begun == number else begins
        elif begun == number and _says(line, key):
            return f"line {place}: "
    return f"line {begins}: " if begins else ""


def _says(line: str, key: str) -> bool:
    return re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]", line) is not None

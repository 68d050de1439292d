"""The text of policy.toml: read as rules and refusals, and changed without losing what else stands there.

What must stay true: a change is the smallest one, comments stay, and what it makes is a policy that reads as it was
meant, or nothing is written.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.site.budget.policy import ANY, LEAST_HELPED, NOISES, HelpRule, Policy, PolicyRefusal, PolicyRule
from thebes.site.toml_text import entries

LONGEST = 200  #: characters of a name
_KEYS = {
    "allow": (
        "requestors",
        "datasets",
        "kinds",
        "epsilon",
        "delta",
        "noise",
        "contexts",
        "steady",
        "task",
        "ended",
        "helpers",
    ),
    "refuse": ("requestors", "reason", "datasets", "kinds", "task", "ended"),
    "help": ("requestors", "epsilon", "delta", "min_count", "ended", "sites"),
}
_NEEDED = {
    "allow": ("requestors", "datasets", "kinds", "epsilon"),
    "refuse": ("requestors", "reason"),
    "help": ("requestors", "epsilon"),
}
_CALLED = {"allow": "rule", "refuse": "refusal", "help": "help"}
_LISTS = ("requestors", "datasets", "kinds", "noise", "contexts", "helpers")
_DIGEST = r"[0-9a-f]{64}"


def read_policy(text: str) -> Policy:
    """Return the rules and refusals in a policy file; a Mistake names the line or the rule and its key."""
    try:
        body = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise Mistake("policy.toml", f"is not TOML: {str(error)[:200]}") from None
    for name in body:
        if name not in _KEYS:
            raise Mistake(
                "policy.toml",
                f"{_at(text, name)}{name[:40]!r} is unknown; rules begin with [[allow]], [[refuse]] or [[help]]",
            )
    found: dict[str, list[Any]] = {}
    for table, made in (("allow", _rule), ("refuse", _refusal), ("help", _help)):
        rules = body.get(table, [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise Mistake("policy.toml", f"{_at(text, table)}rules begin with [[{table}]], in double brackets")
        found[table] = [made(number, rule, text) for number, rule in enumerate(rules, 1)]
    return Policy(tuple(found["allow"]), tuple(found["refuse"]), helping=tuple(found["help"]))


def read(text: str) -> tuple[PolicyRule, ...]:
    """Return the rules in a policy file, as `read_policy` does."""
    return read_policy(text).rules


def appended(text: str, rule: Mapping[str, Any], *, table: str = "allow") -> str:
    """Return the text of a policy with one rule, or refusal, more; a Mistake where either is none."""
    said = entries({key: value for key, value in rule.items() if value is not None})
    lines = [f"[[{table}]]", *said]
    whole = text.rstrip("\n") + ("\n\n" if text.strip() else "") + "\n".join(lines) + "\n"
    read_policy(text)
    read_policy(whole)
    return whole


def ended(text: str, table: str, number: int, *, end: bool = True) -> str:
    """Return the text of a policy in which a rule or refusal is marked as ended, or not any more; a Mistake where it
    has no such one, or nothing but that cannot be changed."""
    before = read_policy(text)
    kept = before.rules if table == "allow" else before.refusals
    if not 1 <= number <= len(kept):
        raise Mistake("rule", f"there is no {table} rule {number} in policy.toml; reload the page")
    lines = text.splitlines(keepends=True)
    begin = _begins(lines, table, number)
    last = next((n for n in range(begin + 1, len(lines)) if re.match(r"\s*\[", lines[n])), len(lines))
    said = [n for n in range(begin + 1, last) if _says(lines[n], "ended")]
    if said:
        lines[said[0]] = f"ended = {str(end).lower()}\n"
    elif end:
        lines.insert(begin + 1, "ended = true\n")
    whole = "".join(lines)
    after = read_policy(whole)
    now = after.rules if table == "allow" else after.refusals
    others = [(a, b) for n, (a, b) in enumerate(zip(kept, now, strict=True), 1) if n != number]
    if now[number - 1].ended is not end or any(a != b for a, b in others):
        raise Mistake(
            "policy.toml", f"is written in a way that cannot be changed here; set ended in rule {number} yourself"
        )
    return whole


def revoked(text: str, requestors: Sequence[str], dataset: str, reason: str) -> str:
    """Return the text of a policy that lets these requestors ask nothing about a data set any more: rules about it that
    name nobody else are ended, and where others speak of them, or of it among more, a refusal is added."""
    left = False
    for rule in read_policy(text).rules:
        named = {*rule.requestors} & {ANY, *requestors} and {*rule.datasets} & {ANY, dataset}
        if not named or rule.ended:
            continue
        if {*rule.requestors} <= {*requestors} and rule.datasets == (dataset,):
            text = ended(text, "allow", rule.number)
        else:
            left = True
    if not left:
        return text
    return appended(text, {"requestors": [*requestors], "datasets": [dataset], "reason": reason}, table="refuse")


def allowed_again(text: str, requestors: Sequence[str], dataset: str, kinds: Sequence[str]) -> str:
    """Return the text of a policy in which what refuses only these requestors, only about a data set and only by these
    kinds is ended: no kind comes back that is not granted."""
    for refusal in read_policy(text).refusals:
        about = refusal.datasets == (dataset,) and {*refusal.kinds} <= {*kinds} and not refusal.task
        if about and not refusal.ended and {*refusal.requestors} <= {*requestors}:
            text = ended(text, "refuse", refusal.number)
    return text


def edition(text: str) -> str:
    """Return a name of exactly this text, by which a change says what it is a change of."""
    return sha256(text.encode()).hexdigest()


def _begins(lines: list[str], table: str, number: int) -> int:
    begun = [n for n, line in enumerate(lines) if re.match(rf"\s*\[\[\s*{table}\s*\]\]", line)]
    if len(begun) < number:
        raise Mistake("policy.toml", f"is written so that this cannot be changed here; change rule {number} yourself")
    return begun[number - 1]


def _rule(number: int, body: Mapping[str, Any], text: str) -> PolicyRule:
    wrong = _complaint("allow", number, text)
    lists = _common("allow", body, wrong)
    if not set(lists.get("noise", ())) <= set(NOISES):
        raise wrong("noise", f"may name {', '.join(NOISES)}")
    helpers = lists.get("helpers", ())
    if not all(re.fullmatch(_DIGEST, helper) for helper in helpers):
        raise wrong("helpers", "must be fingerprints, 64 hexadecimal digits each, as those institutions publish them")
    if bool(helpers) is not ("split" in lists.get("noise", ())):
        raise wrong("helpers", 'goes with "split" in noise, and that with it: it names whom shares may be sealed for')
    amounts = _amounts(body, wrong)
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
        str(body.get("task", "")),
        bool(body.get("ended", False)),
        helpers,
    )


def _help(number: int, body: Mapping[str, Any], text: str) -> HelpRule:
    wrong = _complaint("help", number, text)
    lists, amounts = _common("help", body, wrong), _amounts(body, wrong)
    least = body.get("min_count", LEAST_HELPED)
    if isinstance(least, bool) or not isinstance(least, int) or least < 2:
        raise wrong("min_count", "must be a whole number, 2 or more")
    return HelpRule(
        number,
        lists["requestors"],
        amounts["epsilon"] or Decimal(0),
        amounts["delta"] or Decimal(0),
        least,
        bool(body.get("ended", False)),
        bool(body.get("sites", False)),
    )


def _amounts(body: Mapping[str, Any], wrong: Callable[[str, str], Mistake]) -> dict[str, Decimal | None]:
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
    return amounts


def _refusal(number: int, body: Mapping[str, Any], text: str) -> PolicyRefusal:
    wrong = _complaint("refuse", number, text)
    lists = _common("refuse", body, wrong)
    if not _named(body["reason"]):
        raise wrong("reason", f"must be a sentence of at most {LONGEST} characters, which the requestor reads")
    return PolicyRefusal(
        number,
        lists["requestors"],
        body["reason"],
        lists.get("datasets", (ANY,)),
        lists.get("kinds", (ANY,)),
        str(body.get("task", "")),
        bool(body.get("ended", False)),
    )


def _common(table: str, body: Mapping[str, Any], wrong: Callable[[str, str], Mistake]) -> dict[str, tuple[str, ...]]:
    """Look at what rules and refusals share; give the lists of names."""
    for key in body:
        if key not in _KEYS[table]:
            raise wrong(key, f"is not one of {', '.join(_KEYS[table])}")
    for key in _NEEDED[table]:
        if key not in body:
            raise wrong(key, "is missing")
    lists: dict[str, tuple[str, ...]] = {}
    for key in _LISTS:
        if key in body:
            value = [body[key]] if isinstance(body[key], str) else body[key]
            if not isinstance(value, list) or not value or not all(_named(name) for name in value):
                raise wrong(key, f'must be a list of names, or ["{ANY}"] for all')
            lists[key] = tuple(value)
    for key in ("steady", "ended", "sites"):
        if not isinstance(body.get(key, False), bool):
            raise wrong(key, "must be true or false")
    if "task" in body and not (isinstance(body["task"], str) and re.fullmatch(_DIGEST, body["task"])):
        raise wrong("task", "must be the digest of a document: 64 hexadecimal digits")
    return lists


def _complaint(table: str, number: int, text: str) -> Callable[[str, str], Mistake]:
    which = f"{_CALLED[table]} {number}"

    def wrong(key: str, message: str) -> Mistake:
        return Mistake("policy.toml", f"{_line(text, table, number, key)}{which}, {key[:40]}: {message}")

    return wrong


def _named(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable()


def _at(text: str, key: str) -> str:
    found = next((place for place, line in enumerate(text.splitlines(), 1) if _says(line, key)), None)
    return "" if found is None else f"line {found}: "


def _line(text: str, table: str, number: int, key: str) -> str:
    """Say where in the file a rule says something; where it does not, where the rule begins."""
    begun, begins = 0, 0
    for place, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[\[\s*{table}\s*\]\]", line):
            begun += 1
            begins = place if begun == number else begins
        elif begun == number and _says(line, key):
            return f"line {place}: "
    return f"line {begins}: " if begins else ""


def _says(line: str, key: str) -> bool:
    return re.match(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]", line) is not None

"""Words for what a person's machine knows: states, prices, refusals. The same word for the same thing everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from thebes.data.store.glance import OTHERS
from thebes.ledger import BudgetExceeded, Frozen
from thebes.person.settings import TRUSTS, TaskShare
from thebes.person.tasks.decisions import KEPT
from thebes.privacy.accounting.odds import meaning
from thebes.privacy.faults import Fault, Mistake, ThebesError
from thebes.privacy.figures import plural, spaced
from thebes.privacy.plain_text import plain_text
from thebes.tasks import registry
from thebes.tasks.explanation import (
    BY_RUNNING,
    IN_ALL,
    MIXED,
    PRICE,
    what_is_seen,
    what_leaves,
    what_somebody_could_learn,
)
from thebes.wire.refusals import Unreachable

NO_BREAK = "\u2011"  #: a hyphen at which no line ends
MOST_REASONS = 20  #: for which tasks are not shown
#: so few members, or so small a share of them, staying away leave a token little to hide
FEW_AWAY, SHARE_AWAY = 3, 0.1
#: what stands where taking it back is not worth a try
MIXED_IN = KEPT
#: what the second promise of mixed answers is worth without a proxy that keeps apart what is sent
SEEN_DIRECTLY = (
    "Your machine uses no proxy that keeps apart what you send, so the operator of the server may see which answer is "
    "yours: against them count on the first alone."
)
TRUST = {
    "local": "noised on your machine",
    "trusted": "you trust a server",
    "split": "you trust one of two servers",
}
#: which of the budgets something is left of
FOR = {
    "local": "for answers noised here",
    "trusted": "for servers that you trust",
    "split": "for two servers of which you trust one",
}
#: headings of the budgets
BUDGETS = {
    "local": "Noised on your machine",
    "trusted": "Where you trust a server",
    "split": "Where you trust one of two servers",
}


of = registry.words


def paid(task: Mapping[str, Any]) -> str:
    """Say what a task cost so far and what is set aside for it, beside what is left of the budget it draws on."""
    gone, aside, left = task["paid"]["epsilon"], task["set_aside"]["epsilon"], task["left"]["epsilon"]
    rest = sentence(f"{task['window']} you have {spaced(left)} of {spaced(task['limit'])} left {FOR[task['budget']]}")
    if not aside:
        return f"You paid {spaced(gone) if gone else 'nothing'}. {rest}"
    so_far = f"You paid {spaced(gone)} so far, and " if gone else ""
    return f"{so_far}{spaced(aside)} is set aside, and paid when it leaves. {rest}"


def twice(task: Mapping[str, Any], allowed: TaskShare) -> str:
    """Ask the second question about a task that takes more than one may."""
    each = task["each"]
    delta = f" and delta {spaced(each['delta'])}" if each["delta"] > allowed.delta else ""
    least = f" and delta {spaced(float(allowed.delta))}" if delta else ""
    return (
        f"This takes epsilon {spaced(each['epsilon'])}{delta}; you said that one task may take "
        f"{spaced(float(allowed.epsilon))}{least} without a second question. Somebody who has to guess, "
        f"fifty-fifty, which of two answers you gave would be {guess(each['epsilon'], each['delta'])}, instead of "
        f"{meaning(allowed.epsilon, allowed.delta).how_often}. Are you sure?"
    )


def hindrance(task: Mapping[str, Any]) -> str:
    """Say why a yes is not possible now; empty where it is."""
    if not task["fits"]:
        each, left = task["each"], task["left"]
        by_delta = each["epsilon"] <= left["epsilon"]
        what = f"delta {spaced(each['delta'])}" if by_delta else f"epsilon {spaced(each['epsilon'])}"
        rest = (
            f"more than is left {FOR[task['budget']]}"
            if by_delta
            else f"and {spaced(left['epsilon'])} is left {FOR[task['budget']]} {task['window']}"
        )
        if task["capped"]:
            more = "Under My privacy you can change the cap."
        else:
            limits = "Under My privacy you can raise your limits, and are protected less."
            more = "My privacy shows what was spent." if task["gone"] else limits
        return f"You cannot accept it: it costs {what}, {rest}. {more}"
    return "" if task.get("able", True) else "You cannot accept it: nothing in your store fits what it reads."


def lacking(task: Mapping[str, Any]) -> str:
    """Say beside the decision which tables are not here, and that a yes costs the same; empty where all are."""
    tables = task.get("lacks") or []
    if not tables:
        return ""
    named = f"table {tables[0]}" if len(tables) == 1 else f"tables {', '.join(tables)}"
    return (
        f"Your store has no {named}. You may agree all the same, at the same price: your machine then answers that you "
        "have no value, or with the value that the task names for this case."
    )


def stretch(period: Mapping[str, Any]) -> str:
    """Name a budget's period: so many days in a row, until the next ones begin. Its date does not break."""
    return f"in the {days(period)} until {str(period['end']).replace('-', NO_BREAK)}"


def days(period: Mapping[str, Any]) -> str:
    """Count the days of a budget's period."""
    start, end = (date.fromisoformat(str(period[name])) for name in ("start", "end"))
    return plural((end - start).days, "day")


def begins_anew(period: Mapping[str, Any]) -> str:
    """Say when a budget's next period begins."""
    return f"The next {days(period)} begin on {str(period['end']).replace('-', NO_BREAK)}."


def gone(block: Mapping[str, Any]) -> str:
    """Say what of a budget is no longer there to be spent."""
    spent, aside = block["spent"]["epsilon"], block["reserved"]["epsilon"]
    if not spent and not aside:
        return "Nothing is spent."
    told = [f"{spaced(spent)} is spent"] if spent else []
    return f"{' and '.join([*told, *([f'{spaced(aside)} is set aside'] if aside else [])])}."


def learned(task: Mapping[str, Any]) -> str:
    """Say what somebody can have learned at most of what was paid for."""
    right = guess(task["paid"]["epsilon"], task["paid"]["delta"])
    return f"Somebody who has to guess, fifty-fifty, which of two answers you gave is now {right}."


def budget_of(trust: str) -> str:
    """Name the budget that a task draws on."""
    return {"none": "local", "split": "split"}.get(trust, "trusted")


def budgets(ledger: Mapping[str, Any]) -> list[str]:
    """Name the budgets that are shown by themselves: all that are no part of another."""
    return [trust for trust in TRUSTS if "within" not in ledger[trust]]


def within(ledger: Mapping[str, Any], trust: str) -> str:
    """Say how much of a budget two servers took, where theirs is part of it and they took anything."""
    split = ledger["split"]
    if split.get("within") != trust or not split["taken"]:
        return ""
    return f"{spaced(split['taken'])} of that is for two servers of which you trust one."


def guess(epsilon: float, delta: float = 0.0) -> str:
    """Say how often somebody guesses right; rounded up."""
    return f"right {meaning(epsilon, delta).how_often}"


def after(task: Mapping[str, Any]) -> str:
    """Say what somebody has seen who guesses so often, and who needs no guess."""
    seen = f"after seeing {what_is_seen(trusted=task['trust'] != 'none')}."
    return f"{seen} The server needs no guess: it gets your value." if task["trust"] == "server" else seen


def odds(task: Mapping[str, Any]) -> str:
    """The price as plain sentences."""
    price, trusted = task["price"], task["trust"] != "none"
    learned = what_somebody_could_learn(trusted=trusted, epsilon=price["epsilon"], delta=price["delta"])
    return f"{learned} {IN_ALL}"


def both_odds(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The two promises of a task whose answers nobody can assign, each with its name; none of all others."""
    mixed = [line.removeprefix(MIXED) for line in str(task["explanation"]).splitlines() if line.startswith(MIXED)]
    if not mixed:
        return []
    alone = "Whatever anybody does", odds(task)
    direct = "" if task.get("hides_sender") else f" {SEEN_DIRECTLY}"
    return [alone, ("If nobody can tell whose answer is whose", sentence(mixed[0]) + direct)]


def strength(epsilon: float) -> str:
    """One word for a price, so that numbers need no training."""
    for most, word in ((0.1, "very small"), (0.5, "small"), (1.5, "moderate"), (4.0, "large")):
        if epsilon <= most:
            return word
    return "very large"


def leaves(task: Mapping[str, Any]) -> str:
    """Say in short what leaves and who has to be trusted."""
    return what_leaves(trusted=task["trust"] == "server", split=task["trust"] == "split")


def in_plain_words(task: Mapping[str, Any]) -> list[str]:
    """The explanation without its SQL, which stands under Inspect, and without its price, which stands beside it."""
    running = BY_RUNNING + plain_text(str(task["document"].get("featurizer", "")).strip())
    told = str(task["explanation"]).replace(running, ".").splitlines()
    return [line for line in told if not line.startswith((PRICE, MIXED))]


def leading(seen: Mapping[str, Any]) -> str:
    """Say which word of a column leads, where one does: `bars` begin with the most frequent."""
    first, *others = seen["bars"]
    if first["count"] == 1:
        return ", each once"
    if others and others[0]["count"] == first["count"] and others[0]["label"] != OTHERS:
        return ""
    most = 2 * first["count"] > seen["rows"] - seen["missing"]
    return f", {'mostly' if most else 'most often'} {first['label']}"


def hidden_among(task: Mapping[str, Any], groups: Sequence[Mapping[str, Any]]) -> str:
    """A warning where so many of a group must answer that its token hides little; empty where it does not."""
    document, wanted = task["document"], task.get("min_count")
    named = [g for g in groups if (g["name"], g["epoch"]) == (document.get("group"), document.get("epoch"))]
    if not named or not named[0]["published"] or not wanted:
        return ""
    size = named[0]["size"]
    if size - wanted >= max(FEW_AWAY, size * SHARE_AWAY):
        return ""
    who = "all of" if wanted >= size else f"{spaced(wanted)} of"
    return (
        f"An answer is made only once {who} the {spaced(size)} members of the group {document['group']} have answered, "
        "so nearly everybody knows who takes part. Your answer stays hidden only as long as the others do not say "
        "which answers are theirs."
    )


def taken_part(task: Mapping[str, Any]) -> str:
    """Say how many have contributed, as the coordinator tells it."""
    count, wanted = task.get("contributions"), task.get("min_count")
    if count is None:
        return f"An answer is made once {plural(wanted, 'person has', 'people have')} contributed." if wanted else ""
    return f"{plural(count, 'contribution')} so far" + (f" of the {spaced(wanted)} an answer needs." if wanted else ".")


def unsaid(task: Mapping[str, Any]) -> list[str]:
    """List what a task does not say that whoever is asked should know."""
    missing = {"purpose": "no purpose", "contact": "nobody to ask", "expires_at": "no end"}
    return [told for field, told in missing.items() if not str(task["document"].get(field) or "").strip()]


def warning(task: Mapping[str, Any]) -> str:
    """Say in a sentence what a task does not say; empty where nothing is missing."""
    told = {"no purpose": "what its answer is for", "nobody to ask": "whom to ask", "no end": "until when it is open"}
    lacks = [told[each] for each in unsaid(task)]
    if not lacks:
        return ""
    return f"It does not say {', '.join(lacks[:-1])}{' or ' if lacks[1:] else ''}{lacks[-1]}."


def for_good(task: Mapping[str, Any]) -> str:
    """Say what to know before agreeing to what is mixed in at once; empty where a contribution can be taken back."""
    return "Once it is sent it cannot be taken back: it is mixed in at once." if registry.endless(task["type"]) else ""


def turns(task: Mapping[str, Any]) -> str:
    """Say how often one took part, where one may do so several times."""
    times = task["document"].get("max_participations", 1)
    if times == 1:
        return ""
    left = task["turns_left"]
    if left == times:
        return f"You may take part up to {times} times; each time costs the same."
    told = f"You took part {times - left} of {times} times."
    return f"{told} You may do so again; it costs the same." if left else f"{told} That was the last."


def called(name: str | None, kind: str) -> str:
    """Return what a task is called: by its kind where its requestor gave it no name."""
    return name or f"{'An' if kind[:1] in 'aeiou' else 'A'} {kind} task"


def refusal(error: ThebesError) -> str:
    """An error as a sentence that says what to do next; of a fault of ours nothing is told."""
    if isinstance(error, Frozen):
        why = "this home came back from a copy, or moved to another device"
        return f"This ledger is frozen: {why}. Nothing was agreed to. Overview says what to do."
    if isinstance(error, BudgetExceeded):
        whose = f" for {error.spender}" if error.spender is not None else ""
        asked, left = error.requested, error.remaining
        delta = f", delta {spaced(float(asked.delta))}" if asked.delta > left.delta else ""
        more = f" and delta {spaced(float(left.delta))}" if asked.delta > left.delta else ""
        return (
            f"Your budget does not allow it{whose}: it costs epsilon {spaced(float(asked.epsilon))}{delta}, and "
            f"epsilon {spaced(float(left.epsilon))}{more} is left. Nothing was agreed to and nothing left. "
            "Under My privacy you can see what was spent, and raise the limit if you want to."
        )
    if isinstance(error, Unreachable):
        return (
            "The coordinator does not answer just now. Nothing is lost: what you agreed to is sent when it is back, "
            "and everything on this machine can be used meanwhile."
        )
    if isinstance(error, Fault):
        return "Something went wrong on this machine. Nothing was sent. Its messages say more."
    if isinstance(error, Mistake):
        return sentence(f"{_field(error.argument)} {error.message}")
    return sentence(str(error))


def plainly(number: float) -> str:
    """A number as a form's field holds it: every digit, no needless ones."""
    return repr(float(number)).removesuffix(".0")


def sentence(words: str) -> str:
    """With a capital in front and a stop behind."""
    words = words.strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _field(argument: str) -> str:
    pieces = [piece for piece in argument.split(".") if piece not in ("rule", "rules") and not piece.isdecimal()]
    return ": ".join(pieces).replace("_", " ")


def together(packets: int) -> str:
    """Say what taking back so many packets shows; said before it is done."""
    if packets < 2:
        return ""
    return (
        f"Your {packets} packets go back at once, which shows the coordinator that they belong together, "
        "and when you did it."
    )


_LEAVES = {
    "untrusted": "are noised on this machine",
    "split": "trust one of two servers with shares",
    "trusted": "trust a server with plain values",
}


def rule(body: Mapping[str, Any]) -> str:
    """A standing rule as one sentence: all that it covers, and what it leaves open."""
    said = [body["server"]] if body.get("server") else registry.unsaid_servers(str(body["type"]))
    pieces = [
        " or ".join(words for server, words in _LEAVES.items() if server in said) or " or ".join(_LEAVES.values())
    ]
    if "tables" in body:
        pieces.append(f"read nothing but {' and '.join(body['tables']) or 'no table'}")
    else:
        pieces.append("read any of your tables")
    if "min_count" in body:
        pieces.append(f"want at least {plural(int(body['min_count']), 'person', 'people')}")
    pieces += ["say what for, whom to ask and until when"] if body.get("stated") else []
    costs = [f"epsilon {spaced(body['epsilon_at_most'])}"]
    costs += [f"delta {spaced(body['delta_at_most'])}"] if "delta_at_most" in body else []
    whose = f"Agree to {body['type']} tasks of {body.get('requestor', 'anybody')} that {', '.join(pieces)}"
    most = f" and cost at most {' and '.join(costs)} each"
    weekly = f", up to epsilon {spaced(body['epsilon_per_week'])} in seven days" if "epsilon_per_week" in body else ""
    chance = float(body.get("probability", 1))
    coin = f", each with a chance of {spaced(100 * chance)} %" if chance < 1 else ""
    return whose + most + weekly + coin + "."


def agreed_for(agreed: Sequence[Mapping[str, Any]]) -> float:
    """Add up what was spent on what a rule agreed to."""
    return sum(float(p["spent"]["epsilon"]) for p in agreed if p["spent"] is not None)


def not_shown(count: int) -> str:
    """Count the tasks that are not offered."""
    return f"{plural(count, 'task')} cannot be shown here"


def unread(told: Sequence[Mapping[str, str]]) -> list[str]:
    """Say how many tasks are not offered, a sentence for each reason."""
    reasons = Counter(each["why"] for each in told)
    lines = [f"{not_shown(count)}: {why}." for why, count in reasons.most_common(MOST_REASONS)]
    return [*lines, "Nothing can be agreed to that cannot be shown."] if lines else []

"""Words that the pages of a site say for states, decisions and entries of the log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from thebes.data.schema import size_of
from thebes.privacy.figures import spaced

#: of the link to the coordinator: a look, and what it means
LINKS = {
    "connected": ("good", "The coordinator is reached, and knows this site."),
    "connecting": ("warn", "The coordinator is not reached just now. It is dialled again and again."),
    "refused": ("bad", "The coordinator refuses this site."),
}
#: who adds noise, from where the rows lie
NOISES = {
    "site": "noise is added here, before anything leaves",
    "coordinator": "exact totals leave; the coordinator adds the noise",
    "split": "totals leave in two shares; the coordinator and a helper each add noise",
}
#: where an answer comes from
SOURCES = {"cache": "an answer before", "synopsis": "a synopsis", "mechanism": "the rows"}
CACHES = {
    "exact": "the same question gets the same answer",
    "smart": "made-up rows that learn from released answers answer too",
    "pmw": "a guess that learns from released answers answers too",
}
ENTRIES = {
    "ask": "was asked",
    "allowed": "allowed by the policy",
    "refused": "refused",
    "answer": "answered",
    "quote": "was asked what it would cost",
    "quoted": "said what it would cost",
    "closed": "over: what it had left was given back",
    "decision": "decided by the steward",
    "expired": "over by its own date: what it had left was given back",
}


def called(request: Mapping[str, Any]) -> str:
    """Return what a request is called: by its name, or by its kind and whoever asks."""
    named = (request.get("document") or {}).get("name")
    return str(named or f"A {request['kind']} task of {request['requestor']}")


def decision(request: Mapping[str, Any]) -> tuple[str, str]:
    """Return what was decided about a request, in a word, and how that looks."""
    if request["code"]:
        return "refused", "bad"
    if request["state"] == "closed":
        return ("answered", "good") if request["parts"] else ("over", "")
    return "allowed", "good"


def cost(request: Mapping[str, Any]) -> str:
    """Say what a request has cost so far."""
    paid = request["cost"]
    if not request["parts"]:
        return "nothing"
    if not paid["epsilon"]:
        public = (request.get("document") or {}).get("privacy") == "none"
        return "nothing: the data set is public" if public else "nothing: it was answered before"
    return f"epsilon {spaced(paid['epsilon'])}" + (f", delta {spaced(paid['delta'])}" if paid["delta"] else "")


def question(request: Mapping[str, Any]) -> str:
    """Say what a request asks of which data, in half a sentence."""
    document = request.get("document") or {}
    what = document.get("statistic") or document.get("model") or f"a {request['kind']} task"
    of = f" of {document['column']}" if document.get("column") else ""
    where = " joined with ".join(request["datasets"])
    return f"for the {what}{of} in {where}" if document.get("statistic") else f"{what} of {where}"


def allowing(request: Mapping[str, Any]) -> str | None:
    """The command that would allow what no rule covered, each name as one word of a shell, for each data set that is
    asked; None where a name stands for more than itself in a rule."""
    epsilon = (request.get("document") or {}).get("epsilon")
    told = [*(str(request[name]) for name in ("requestor", "kind")), *request["datasets"]]
    if request["code"] != "policy" or "*" in told or "," in told[1] or not isinstance(epsilon, (int, float)):
        return None
    noise = {
        "coordinator": ["--noise=site,coordinator"],
        "split": ["--noise=site,split", "--helpers=FINGERPRINT"],  # from where its institution publishes it
    }.get(request["noise"], [])
    words = ["thebes", "dataset", "grant", "--home=HOME", f"--to={told[0]}", f"--kinds={told[1]}"]
    each = [shlex.join([*words, f"--epsilon={epsilon:g}", *noise, "--", name]) for name in told[2:]]
    return " && ".join(each)


def named(names: list[str]) -> str:
    """Names of a rule."""
    return "all" if "*" in names else ", ".join(names)


def told(entry: Mapping[str, Any]) -> str:
    """The facts of an entry of the log, without what its other columns say."""
    kept = {name: value for name, value in entry["facts"].items() if name not in ("task", "digest", "sha256", "again")}
    said = [f"{name} {_fact(value)}" for name, value in kept.items() if value not in ("", None, "?", "0.0", "0")]
    return ", ".join(said + (["the same as before, for nothing"] if entry["facts"].get("again") is True else []))


def _fact(value: Any) -> str:
    """A fact as it is read: an amount with no needless digits."""
    try:
        return spaced(float(value)) if "." in str(value) else str(value)
    except ValueError:
        return str(value)


def bounds(column: Mapping[str, Any]) -> str:
    """Say what a column may hold."""
    if column.get("key"):
        return "says whose a row is; never asked for"
    if column.get("values"):
        shown = [str(value) for value in column["values"][:8]]
        return ", ".join(shown) + (f" and {len(column['values']) - 8} more" if len(column["values"]) > 8 else "")
    if size := size_of(column):
        return f"{size}; for networks only"
    if column.get("low") is not None:
        return f"{spaced(column['low'])} to {spaced(column['high'])}"
    return "anything; conditions only"


def counts(found: Mapping[str, int]) -> str:
    """Say how many blocks have each look, as one sentence for those who do not see the map."""
    return ", ".join(f"{count} {name}" for name, count in found.items())


def run(told: Mapping[str, Any]) -> tuple[str, str]:
    """Return how a run of a pipeline stands, in a word, and how that looks."""
    if told["state"] == "failed":
        return "failed", "bad"
    if told["state"] == "open":
        return ("waiting" if told["verdict"] else "running"), "warn"
    return str(told["verdict"]), {"ACCEPT": "good", "REJECT": "bad"}.get(str(told["verdict"]), "warn")


def found(attempt: Mapping[str, Any]) -> str:
    """Say what an attempt's tests said."""
    metrics = (attempt["validation"] or {}).get("metrics", ())
    return "; ".join(_metric(each) for each in metrics)


def _metric(told: Mapping[str, Any]) -> str:
    parts = [f"{told['metric']}"]
    if told.get("value") is not None:
        parts.append(f"about {spaced(told['value'])}")
    if told.get("bound") is not None:
        parts.append(f"no worse than {spaced(told['bound'])}")
    return f"{parts[0]} {', '.join(parts[1:])} (wanted {spaced(told['target'])})"

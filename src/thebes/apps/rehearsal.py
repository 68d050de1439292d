"""A task rehearsed with made-up people, in a child process: `python -m thebes.apps.rehearsal`.

The child draws people evenly within the bounds a document declares and simulates it over them again and again, so
that a requestor sees how far noise would move the answer. What must stay true: a coordinator never loads an owner's
half; the child has no network, hears one document, and is over within seconds; nothing in it is anybody's data.
"""

from __future__ import annotations

import json
import struct
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from thebes.confinement.calls import die_with_parent
from thebes.confinement.inside import hear, live, say
from thebes.confinement.measures import cut_off, limit, mapped
from thebes.confinement.parent import Child, Lost
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks.document import PeopleDocument, Range, Values
from thebes.wire.refusals import Busy

LENGTH = struct.Struct("<I")
MOST_BYTES = 2**26
MOST_PEOPLE = 100_000  #: more people than that only make the answer better
REPEATS = 100
SHARE = 0.95
SECONDS = 20.0  #: after which the child is killed
_WORK_SECONDS = 11.0  #: after which it begins no further repeat
_MEMORY = 3 * 2**30
_MOST_QUANTITIES = 12
_KINDS = ("basic", "integrated", "bounded")
_HARMLESS = 1e5  #: an epsilon at which noise is far below anybody's interest: the same code gives the truth


class NotRehearsed(Refusal):
    """No rehearsal of this task; the sentence says why, and what to do instead."""


_one_at_a_time = threading.Lock()


def rehearse(document: PeopleDocument) -> dict[str, Any]:
    """How far the answer would be off: {"people", "repeats", "unanswered", "quantities": [{"what", "within"}]}.

    `within` holds `SHARE` of the repeats; None where too few of them gave an answer. Blocks for up to `SECONDS`;
    `Busy` while another rehearsal is under way.
    """
    rehearsable(document)
    if not _one_at_a_time.acquire(blocking=False):
        raise Busy("another rehearsal is under way; try again in a few seconds", 5.0)
    try:
        return _asked({"document": document.as_json(), "repeats": REPEATS, "seconds": _WORK_SECONDS})
    finally:
        _one_at_a_time.release()


def rehearsable(document: PeopleDocument) -> None:
    """Refuse what made-up people say nothing about."""
    if document.type not in _KINDS or getattr(document, "model", "") == "RandomForestClassifier":
        raise NotRehearsed(
            "what this learns is how people's values hang together, and those of made-up people do not: "
            "rehearse it with thebes.simulate over rows of your own"
        )
    missing = [column for column in document.gives if column not in (document.bounds or {})]
    if missing and getattr(document, "aggregator", "") != "count":
        raise NotRehearsed(f"to rehearse it, declare bounds of {missing[0]!r}: made-up people are drawn within them")


def _asked(question: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(question).encode()
    child = Child("thebes.apps.rehearsal", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    try:
        heard = child.talk(LENGTH.pack(len(text)) + text, time.monotonic() + SECONDS, _length)
    except Lost as lost:
        raise NotRehearsed(f"the rehearsal came to no end: {lost}") from None
    finally:
        child.close()
    answer: dict[str, Any] = json.loads(heard[LENGTH.size :])
    if "refused" in answer:
        raise NotRehearsed(answer["refused"])
    return answer


def _length(heard: bytearray) -> int:
    if len(heard) < LENGTH.size:
        return LENGTH.size
    size: int = LENGTH.unpack(heard[: LENGTH.size])[0]
    if size > MOST_BYTES:
        raise Lost("it answered more than it was asked")
    return LENGTH.size + size


# --- the child ----------------------------------------------------------------------------------------------


def serve(source: int, sink: int) -> None:
    """Hear one document, say how its rehearsals went."""
    import thebes.learning  # what the work needs is loaded before the walls
    from thebes.simulation.world import simulate
    from thebes.tasks import registry

    registry.load_all()
    warm = {"type": "basic", "epsilon": 1.0, "featurizer": "SELECT a FROM made.up", "aggregator": "count"}
    simulate(warm, {"a": [0.0] * 20}, seed=0)
    assert thebes.learning  # noqa: S101
    cut_off()
    limit(memory=mapped() + _MEMORY, cpu=int(2 * SECONDS), writing=0, core=0)
    question = json.loads(hear(source, LENGTH.unpack(hear(source, LENGTH.size))[0]))
    try:
        answer = _rehearsed(question["document"], question["repeats"], question["seconds"])
    except Mistake as mistake:
        answer = {"refused": f"{mistake.argument}: {mistake.message}"}
    text = json.dumps(answer).encode()
    say(sink, LENGTH.pack(len(text)) + text)


def _rehearsed(body: Mapping[str, Any], repeats: int, seconds: float) -> dict[str, Any]:
    import numpy as np

    from thebes.simulation.world import simulate
    from thebes.tasks import registry

    document: Any = registry.check(body)
    people = min(document.min_count, MOST_PEOPLE)
    rows = _made_up(document, people)
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in rows)
    asked = {**document.as_json(), "featurizer": f"SELECT {names} FROM made.up"}  # noqa: S608
    asked.pop("max_count", None)

    def run(seed: int, **changed: Any) -> dict[str, Any] | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = simulate({**asked, **changed}, rows, seed=seed)
        return None if release.form != "rows" and release.value is None else _measured(release)

    truth = _true_shares(document, rows) if document.type == "bounded" else run(0, epsilon=_HARMLESS)
    if truth is None:
        return {"refused": "even without noise no answer came out; declare bounds, or ask more people"}
    end, answers, done = time.monotonic() + seconds, [], 0
    while done < repeats and (done < 3 or time.monotonic() < end):
        done += 1
        answers.append(run(done))
    heard = [answer for answer in answers if answer is not None]
    quantities = []
    for what, exact in list(truth.items())[:_MOST_QUANTITIES]:
        off = [np.abs(np.asarray(answer[what]) - np.asarray(exact)).ravel() for answer in heard if what in answer]
        quantities.append({"what": what, "within": _reached(off, done)})
    return {"people": people, "repeats": done, "unanswered": done - len(heard), "quantities": quantities}


def _reached(off: list[Any], repeats: int) -> float | None:
    """The distance that `SHARE` of all answers kept; no answer is as far away as can be."""
    import numpy as np

    if not off:
        return None
    every = np.sort(np.concatenate([*off, np.full((repeats - len(off)) * off[0].size, np.inf)]))
    found = float(every[min(len(every) - 1, int(np.ceil(SHARE * len(every))) - 1)])
    return found if np.isfinite(found) else None


def _made_up(document: PeopleDocument, people: int) -> dict[str, Any]:
    """People whose values are drawn evenly within the bounds, each column by itself."""
    import numpy as np

    draw = np.random.Generator(np.random.PCG64(1))  # made-up people, not noise
    rows: dict[str, Any] = {}
    for column in document.gives:
        bound = (document.bounds or {}).get(column)
        if isinstance(bound, Range):
            rows[column] = draw.uniform(bound.low, bound.high, people)
        elif isinstance(bound, Values):
            rows[column] = np.array(bound.values, dtype=object)[draw.integers(0, len(bound.values), people)]
        else:
            rows[column] = np.zeros(people)
    return rows


def _true_shares(document: PeopleDocument, rows: Mapping[str, Any]) -> dict[str, Any]:
    """What perturbed rows would say without noise."""
    import numpy as np

    truth: dict[str, Any] = {}
    for column, bound in (document.bounds or {}).items():
        if isinstance(bound, Values):
            truth[f"each value's share of {column}"] = [float(np.mean(rows[column] == value)) for value in bound.values]
        else:
            truth[f"the mean of {column}"] = float(np.mean(rows[column]))
    return truth


def _measured(release: Any) -> dict[str, Any]:
    """The quantities of a release that a requestor would look at."""
    if release.form == "rows":
        told = release.document.bounds
        shares = {
            f"each value's share of {column}": [release.frequencies[column][value] for value in bound.values]
            for column, bound in told.items()
            if isinstance(bound, Values)
        }
        means = {f"the mean of {c}": release.mean(c)[0] for c, bound in told.items() if not isinstance(bound, Values)}
        return {**shares, **means}
    if release.form == "model":
        return _of_model(release)
    if isinstance(release.value, Mapping):
        return {"each count": list(release.value.values())}
    return {"the answer": float(release.value)}


def _of_model(release: Any) -> dict[str, Any]:
    import numpy as np

    model, inputs = release.model, release.extra["inputs"]
    if hasattr(model, "theta_"):
        return {f"the mean of {name} in each class": model.theta_[:, j].tolist() for j, name in enumerate(inputs)}
    weights = np.atleast_2d(model.coef_)
    return {f"the coefficient of {name}": weights[:, j].tolist() for j, name in enumerate(inputs)}


_Serve = Callable[[int, int], None]

if __name__ == "__main__":
    die_with_parent()
    live(serve)

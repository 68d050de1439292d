"""A task rehearsed with made-up people, in a child process: `python -m thebes.web.coordinator.rehearsal`.

The child draws people within the bounds a document declares, or where a column has none and its kind says nothing of
rehearsals, like those who answer the kind's first sample document. It simulates the document over them again and
again, so that a requestor sees how far noise would move the answer. What must stay true: a coordinator never loads an
owner's half; the child has no network, hears one document, and is over within a minute; nothing in it is anybody's
data.
"""

from __future__ import annotations

import json
import struct
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.confinement.calls import die_with_parent
from thebes.confinement.inside import hear, live, say
from thebes.confinement.measures import cut_off, limit, mapped
from thebes.confinement.parent import Child, ChildLost
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks import registry
from thebes.tasks.document import Bound, Document, PeopleDocument, Range, Values
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.rehearsal import Rehearsal, learned_by
from thebes.wire.refusals import Busy

LENGTH = struct.Struct("<I")
MOST_BYTES = 2**26
JUDGED = 2_000  #: other made-up people, over whom a model is judged
REPEATS = 100
SHARE = 0.95
SECONDS = 60.0  #: after which the child is killed, however busy the machine is
_CPU_SECONDS = 40  #: of the child, with its start
_WORK_SECONDS = 11.0  #: after which it begins no further repeat
_MEMORY = 3 * 2**30
_MOST_QUANTITIES = 12
_LEANING = 0.5  #: the chance that a value goes with its person's label, where it is learned what goes with it
RIGHT = "the share of people whose label is told right"
ERROR = "the mean squared error of what is told"


class NotRehearsed(Refusal):
    """No rehearsal of this task; the sentence says why, and what to do instead."""


_one_at_a_time = threading.Lock()


def rehearse(document: Document, *, repeats: int = REPEATS, seconds: float = SECONDS) -> dict[str, Any]:
    """Estimate how far the answer would be off: {"people", "repeats", "unanswered", "lent", "quantities":
    [{"what", "within"}]}. `lent` are the columns that have the values of the kind's own sample.

    `within` holds `SHARE` of the repeats; None where too few of them gave an answer. For a model there is also
    {"what": RIGHT, "least", "exact", "guessed", "poor"}: `SHARE` of the repeats tell at least that share of the labels
    right, without noise it is `exact`, and guessing tells `guessed`; or, of a number, {"what": ERROR, "most", ...}.
    These are of other made-up people than it learned from. `poor` says that fewer repeats than that are better than
    guessing by more than luck explains. Blocks for up to `seconds`; `Busy` while another
    rehearsal is under way.
    """
    rehearsable(document)
    if not _one_at_a_time.acquire(blocking=False):
        raise Busy("another rehearsal is under way; try again in a few seconds", 5.0)
    try:
        return _asked({"document": document.as_json(), "repeats": repeats, "seconds": _WORK_SECONDS}, seconds)
    finally:
        _one_at_a_time.release()


def rehearsable(document: Document) -> None:
    """Refuse what made-up people say nothing about."""
    if not isinstance(document, PeopleDocument):
        raise NotRehearsed(
            "to see it beforehand, run it over rows of your own with thebes.simulate: made-up rows would not be theirs"
        )
    if document.only_simulated is not None:
        raise NotRehearsed("it adds no noise, so there is nothing to rehearse")
    if refused := registry.rehearsal(document.type).refused(document):
        raise NotRehearsed(refused)


def _asked(question: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    text = json.dumps(question).encode()
    child = Child("thebes.web.coordinator.rehearsal", *registry.places(), OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    try:
        heard = child.talk(LENGTH.pack(len(text)) + text, time.monotonic() + seconds, _length)
    except ChildLost as lost:
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
        raise ChildLost("it answered more than it was asked")
    return LENGTH.size + size


# --- the child ----------------------------------------------------------------------------------------------


def serve(source: int, sink: int) -> None:
    """Hear one document, say how its rehearsals went."""
    import thebes.learning  # what the work needs is loaded before the walls
    from thebes.simulation.world import simulate

    registry.load_all()
    kinds: dict[str, Rehearsal[Any]] = {}
    for type_ in registry.people_types():
        with suppress(KindFailed):  # of a kind that cannot say how, no document comes this far
            kinds[type_] = registry.rehearsal(type_)
    warm = {"type": "basic", "epsilon": 1.0, "featurizer": "SELECT a FROM made.up", "aggregator": "count"}
    warm |= {"missing": "count"}
    simulate(warm, {"a": [0.0] * 20}, seed=0)
    assert thebes.learning  # noqa: S101
    cut_off()
    limit(memory=mapped() + _MEMORY, cpu=_CPU_SECONDS, writing=0, core=0)
    question = json.loads(hear(source, LENGTH.unpack(hear(source, LENGTH.size))[0]))
    try:
        document = registry.check(question["document"])
        assert isinstance(document, PeopleDocument)  # noqa: S101
        answer = _rehearsed(document, kinds[document.type], question["repeats"], question["seconds"])
    except (Mistake, KindFailed) as refused:
        answer = {"refused": str(refused)}
    text = json.dumps(answer).encode()
    say(sink, LENGTH.pack(len(text)) + text)


def _rehearsed(document: PeopleDocument, kind: Rehearsal[Any], repeats: int, seconds: float) -> dict[str, Any]:
    from thebes.simulation.world import simulate

    people = kind.people(document)
    lent = _lent(document, kind)
    rows = _made_up(document, people, lent)
    others = _made_up(document, JUDGED, {}, seed=2) if learned_by(document) is not None else None
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in rows)
    asked = {**document.as_json(), "featurizer": f"SELECT {names} FROM made.up"}  # noqa: S608
    asked.pop("max_count", None)

    def run(seed: int = 0, **changed: Any) -> dict[str, Any] | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = {name: value for name, value in {**asked, **changed}.items() if value is not None}
            release = simulate(given, rows, seed=seed, aside=others)
        found = kind.quantities(release)
        return None if found is None else {**_beside(release), **found}

    truth = kind.truth(document, rows, run)
    if truth is None:
        return {"refused": "even without noise no answer came out; declare bounds, or ask more people"}
    end, answers, done = time.monotonic() + seconds, [], 0
    while done < repeats and (done < 3 or time.monotonic() < end):
        done += 1
        answers.append(run(done))
    heard = [answer for answer in answers if answer is not None]
    quantities, learned = [], _learned(document)
    for what, exact in list(truth.items())[:_MOST_QUANTITIES]:
        if what in (RIGHT, ERROR):
            if what == RIGHT and isinstance(learned, Values):  # of as many of each, but for an odd one
                exact = [exact[0], 1 / len(learned.values)]
            quantities.append(_beside_guess(what, exact, [answer[what] for answer in heard], done))
            continue
        off = [np.abs(np.asarray(answer[what]) - np.asarray(exact)).ravel() for answer in heard if what in answer]
        quantities.append({"what": what, "within": _reached(off, done)})
    told = {"people": people, "repeats": done, "unanswered": done - len(heard)}
    return {**told, "lent": list(lent), "quantities": quantities}


def _lent(document: PeopleDocument, kind: Rehearsal[Any]) -> dict[str, NDArray[Any]]:
    """Return the values of the kind's sample people for every column without bounds, by its place."""
    if kind.example is None:
        return {}
    from thebes.simulation.featurizer import featurize
    from thebes.simulation.tables import people_of

    found = featurize(kind.example.document["featurizer"], people_of(kind.example.people)).first().columns.values()
    given = zip(document.gives, found, strict=False)
    return {column: values for column, values in given if column not in (document.bounds or {})}


def _learned(document: PeopleDocument) -> Bound | None:
    """Return what is declared of the column whose values are learned to be told."""
    label = learned_by(document)
    return None if label is None else (document.bounds or {})[label]


def _beside_guess(what: str, exact: list[float], answers: list[list[float]], repeats: int) -> dict[str, Any]:
    """Find what `SHARE` of the models keep to, beside the same without noise and a guess: `exact` has these two, and
    each answer these and whether it is better."""
    worst = _reached([np.array([1.0 - each[0] if what == RIGHT else each[0]]) for each in answers], repeats)
    better = sum(each[2] for each in answers)
    told: dict[str, Any] = {"what": what, "exact": exact[0], "guessed": exact[1], "poor": better < SHARE * repeats}
    if what == RIGHT:
        return {**told, "least": None if worst is None else 1.0 - worst}
    return {**told, "most": worst}


def _reached(off: list[Any], repeats: int) -> float | None:
    """The distance that `SHARE` of all answers kept; no answer is as far away as can be."""
    if not off:
        return None
    every = np.sort(np.concatenate([*off, np.full((repeats - len(off)) * off[0].size, np.inf)]))
    found = float(every[min(len(every) - 1, int(np.ceil(SHARE * len(every))) - 1)])
    return found if np.isfinite(found) else None


def _made_up(document: PeopleDocument, people: int, lent: Mapping[str, NDArray[Any]], seed: int = 1) -> dict[str, Any]:
    """People whose values are drawn evenly within the bounds, or from those that are lent, each column by itself.

    Where a label is learned there are as many of each; every other column has one part of its bounds for each label,
    and a person's value comes from the part of their label as often as `_LEANING` says, else from anywhere. Where a
    number is learned, a value lies as far up its bounds as that number as often.
    """
    draw = np.random.Generator(np.random.PCG64(seed))  # made-up people, not noise
    label, declared = learned_by(document), _learned(document)
    classes = len(declared.values) if isinstance(declared, Values) else 1
    theirs = draw.permutation(np.arange(people) % classes)
    level = draw.random(people) if isinstance(declared, Range) else None
    rows: dict[str, Any] = {}
    for column in document.gives:
        bound = (document.bounds or {}).get(column)
        place = draw.random(people)
        if label is not None:
            leaning = level if level is not None else (theirs + (0.5 if column == label else place)) / classes
            place = np.where((column == label) | (draw.random(people) < _LEANING), leaning, place)
        if isinstance(bound, Range):
            rows[column] = bound.low + (bound.high - bound.low) * place
        elif isinstance(bound, Values):
            rows[column] = np.array(bound.values, dtype=object)[(place * len(bound.values)).astype(np.int64)]
        else:
            values = lent.get(column, np.zeros(1))
            rows[column] = values[(place * len(values)).astype(np.int64)]
    return rows


def _beside(release: Any) -> dict[str, list[float]]:
    """Return how right a model is, beside a guess, and whether it is better; nothing of what is no model."""
    guess = release.extra.get("beside_guess")
    if guess is None:
        return {}
    return {RIGHT if guess["measure"] == "right" else ERROR: [guess["reached"], guess["guessing"], guess["better"]]}


_Serve = Callable[[int, int], None]

if __name__ == "__main__":
    die_with_parent()
    live(serve)

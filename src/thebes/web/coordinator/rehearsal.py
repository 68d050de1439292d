"""A task rehearsed with made-up rows, in a child process: `python -m thebes.web.coordinator.rehearsal`.

The child draws people within the bounds a document declares, or where a column has none and its kind says nothing of
rehearsals, like those who answer the kind's first sample document; rows of sites within their schemas. It simulates the
document over them again and again, so that a requestor sees how far noise would move the answer. What must stay true: a
coordinator never loads an owner's half; the child has no network, hears one document, and is over within a minute;
nothing in it is anybody's data.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from thebes.confinement.calls import die_with_parent
from thebes.confinement.inside import hear, live, say
from thebes.confinement.measures import cut_off, limit, mapped
from thebes.confinement.parent import Child, ChildLost
from thebes.data.schema import read_shown
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.rehearsal import Rehearsal
from thebes.tasks.site_document import SiteDocument
from thebes.wire.refusals import Busy

LENGTH = struct.Struct("<I")
MOST_BYTES = 2**26
REPEATS = 100
SHARE = 0.95
SECONDS = 60.0  #: after which the child is killed, however busy the machine is
_CPU_SECONDS = 40  #: of the child, with its start
_WORK_SECONDS = 11.0  #: after which it begins no further repeat
_MEMORY = 3 * 2**30

#: of each site that is asked, its data set's schema as it is shown
Schemas = Mapping[str, Mapping[str, Any]]


class NotRehearsed(Refusal):
    """No rehearsal of this task; the sentence says why, and what to do instead."""


_one_at_a_time = threading.Lock()


def rehearse(
    document: Document,
    *,
    repeats: int = REPEATS,
    seconds: float = SECONDS,
    schemas: Schemas | None = None,
    rows_about: int | None = None,
) -> dict[str, Any]:
    """Estimate how far the answer would be off: {"people", "repeats", "unanswered", "lent", "quantities":
    [{"what", "within"}]}. `lent` are the columns that have the values of the kind's own sample. Sites have the rows of
    `schemas`, about so many of them together.

    `within` holds `SHARE` of the repeats; None where too few of them gave an answer. For a model there is also
    {"what": RIGHT, "least", "exact", "guessed", "poor"}: `SHARE` of the repeats tell at least that share of the labels
    right, without noise it is `exact`, and guessing tells `guessed`; or, of a number, {"what": ERROR, "most", ...}.
    These are of other made-up rows than it learned from. `poor` says that fewer repeats than that are better than
    guessing by more than luck explains. Blocks for up to `seconds`; `Busy` while another
    rehearsal is under way.
    """
    return _alone(document, seconds, repeats=repeats, schemas=schemas or {}, rows_about=rows_about)


def curve(
    document: Document,
    epsilons: Sequence[float],
    *,
    seconds: float = SECONDS,
    schemas: Schemas | None = None,
    rows_about: int | None = None,
) -> list[dict[str, Any]]:
    """Estimate the same at several epsilons: [{"epsilon", "half_width", "basis", "of"}], as `rehearse` does."""
    asked = {"repeats": REPEATS, "schemas": schemas or {}, "rows_about": rows_about, "epsilons": list(epsilons)}
    points: list[dict[str, Any]] = _alone(document, seconds, **asked)["points"]
    return points


def by_trust(document: Document, *, seconds: float = SECONDS) -> list[dict[str, Any]]:
    """Estimate the same in every trust model that the question can have: [{"model", "epsilon", "delta", "errors",
    "why"}], as `simulation.trust_errors` does; no helper needs to be named."""
    found: list[dict[str, Any]] = _asked_alone(document, seconds, repeats=REPEATS, trusts=True)["models"]
    return found


def rehearsable(document: Document) -> None:
    """Refuse what made-up rows say nothing about."""
    if isinstance(document, PeopleDocument) and document.only_simulated is not None:
        raise NotRehearsed(f"its {document.only_simulated} {document.only_simulated_because}")
    if isinstance(document, SiteDocument) and document.in_attempts:
        raise NotRehearsed(
            "its attempts write files, which nothing does that a page begins: server.curve rehearses it in Python, on "
            "your own machine"
        )
    if refused := registry.rehearsal(document.type).refused(document):
        raise NotRehearsed(refused)


def _alone(document: Document, seconds: float, **question: Any) -> dict[str, Any]:
    rehearsable(document)
    return _asked_alone(document, seconds, **question)


def _asked_alone(document: Document, seconds: float, **question: Any) -> dict[str, Any]:
    if not _one_at_a_time.acquire(blocking=False):
        raise Busy("another rehearsal is under way; try again in a few seconds", 5.0)
    try:
        return _asked({"document": document.as_json(), "seconds": _WORK_SECONDS, **question}, seconds)
    finally:
        _one_at_a_time.release()


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
    from thebes.simulation import rehearsal, trust_errors
    from thebes.simulation.world import simulate

    registry.load_all()
    kinds: dict[str, Rehearsal[Any]] = {}
    for type_ in registry.types():
        with suppress(KindFailed):  # of a kind that cannot say how, no document comes this far
            kinds[type_] = registry.rehearsal(type_)
    warm = {"type": "basic", "epsilon": 1.0, "featurizer": "SELECT a FROM made.up", "aggregator": "count"}
    warm |= {"missing": "count"}
    simulate(warm, {"a": [0.0] * 20}, seed=0)
    rows = {"here": {"a": [0.0] * 20}}
    table = {"unit": "event", "columns": {"a": {"type": "float", "low": 0.0, "high": 1.0}}}
    counted = {"type": "query", "dataset": "made-up", "epsilon": 1.0, "statistic": "mean", "column": "a"}
    simulate(counted, rows, seed=0, schema=table)
    assert thebes.learning and rehearsal and trust_errors  # noqa: S101, PT018
    cut_off()
    limit(memory=mapped() + _MEMORY, cpu=_CPU_SECONDS, writing=0, core=0)
    question = json.loads(hear(source, LENGTH.unpack(hear(source, LENGTH.size))[0]))
    try:
        answer = _answer(question, kinds)
    except (Mistake, Refusal, KindFailed) as refused:
        answer = {"refused": str(refused)}
    text = json.dumps(answer).encode()
    say(sink, LENGTH.pack(len(text)) + text)


def _answer(question: Mapping[str, Any], kinds: Mapping[str, Rehearsal[Any]]) -> dict[str, Any]:
    from thebes.simulation.rehearsal import curve as points
    from thebes.simulation.rehearsal import rehearsed
    from thebes.simulation.trust_errors import trust_errors

    document = registry.check(question["document"])
    if question.get("trusts"):
        found = trust_errors(document, repeats=question["repeats"], seconds=question["seconds"])
        return {"models": [one.as_json() for one in found]}
    kind = kinds[document.type]
    more = {name: question[name] for name in ("repeats", "seconds", "rows_about")}
    more["schemas"] = {site: read_shown(shown) for site, shown in question["schemas"].items()}
    if "epsilons" not in question:
        return rehearsed(document, kind, **more)
    return {"points": [point.as_json() for point in points(document, kind, question["epsilons"], **more)]}


if __name__ == "__main__":
    die_with_parent()
    live(serve)

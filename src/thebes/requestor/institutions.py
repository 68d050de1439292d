"""The documents of what is asked of institutions, which `Server.query` and `Server.train` put up, and how a training
goes.

What must stay true: a document holds what was asked for and nothing that was not; the kinds themselves say what a field
means and what it is when it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.requestor.handle import Handle
from thebes.wire.refusals import Busy, NotFound, Unreachable

_PARTS = ("compute", "transfer", "aggregation")


def document_of(
    type_: str, dataset: str, sites: str | Sequence[str], fields: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """A document with everything that was given; `options` are fields that need no argument of their own."""
    for name in options:
        if name in fields or name in ("type", "dataset", "sites"):
            raise Mistake(name, "is given already")
    given = {name: _plain(value) for name, value in {**fields, **options}.items() if value is not None}
    return {"type": type_, "sites": named_sites(sites), "dataset": dataset, **given}


def named_sites(sites: str | Sequence[str]) -> str | list[str]:
    """Return which sites are asked as a document says it: "all", or a list of names."""
    return sites if sites == "all" else [sites] if isinstance(sites, str) else list(sites)


def must_be_text(model: Any, loss: Any) -> None:
    """Refuse a network that was not made data yet."""
    for name, value in (("model", model), ("loss", loss)):
        if value is not None and not isinstance(value, str):
            raise Mistake(name, "must be a model's name, or the text that thebes.torch.encode(module, loss) gives")


def standing_of(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of what a coordinator tells how a task goes: the part about the sites that are asked."""
    body = told.get("sites")
    return body if isinstance(body, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Round:
    """The standing of a training. `number` rounds of at most `rounds` are over. `loss` (where the document buys it) and
    `update` are of the latest, `seconds` says where its time went: {"compute", "transfer", "aggregation"}. `answered`
    and `missing` are of the round that goes on, or of the last one."""

    number: int
    rounds: int
    loss: float | None = None
    update: float | None = None
    answered: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        told = [f"round {self.number} of {self.rounds}"]
        told += [] if self.loss is None else [f"loss {figure(self.loss, 4)}"]
        told += [] if self.update is None else [f"update {figure(self.update, 3)}"]
        told += [f"{name} {seconds:.3f} s" for name, seconds in self.seconds.items()]
        told += [f"without {site}: {why}" for site, why in self.missing.items()]
        return ", ".join(told)


def round_of(told: Mapping[str, Any]) -> Round:
    """Return what a coordinator tells of a training, as far as it can be read."""
    body = standing_of(told)
    history = [entry for entry in body.get("rounds") or () if isinstance(entry, Mapping)]
    latest = history[-1] if history else {}
    timed = (body.get("seconds") or {}).get("phases") or []
    spent = timed[-1] if timed else {}
    answered, missing = body.get("answered"), body.get("missing")
    return Round(
        number=len(timed),
        rounds=int(body.get("phases") or 0),
        loss=_number(latest.get("loss")),
        update=_number(latest.get("update")),
        answered=tuple(map(str, answered)) if isinstance(answered, list) else (),
        missing={str(site): str(why) for site, why in missing.items()} if isinstance(missing, Mapping) else {},
        seconds={part: float(spent[part]) for part in _PARTS if _number(spent.get(part)) is not None},
    )


class Watching:
    """Tells `progress` of every change that is seen between two looks at a task."""

    def __init__(self, handle: Handle, progress: Callable[[Round], None]) -> None:
        self._handle, self._progress = handle, progress
        self._last: Round | None = None

    def __call__(self, _: Mapping[str, Any]) -> None:
        try:
            now = round_of(self._handle.client.training(self._handle.task_id))
        except (NotFound, Busy, Unreachable):  # the task itself says what there is to say
            return
        if now.rounds and now != self._last:  # before it begins there is nothing to say
            self._last = now
            self._progress(now)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _plain(value: Any) -> Any:
    """Columns and the like as JSON knows them."""
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value

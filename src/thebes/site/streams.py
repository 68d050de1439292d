"""A site's growing data sets, each opened once for a process: rows in HOME/growing/NAME, budget in its ledger."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thebes.curator.pipelines.scheduler import FAIR, LIFETIME, Turns
from thebes.curator.streams.stream import Context, Stream
from thebes.curator.streams.terms import DEVELOPER, beside
from thebes.data.connectors.connector import read_source
from thebes.data.growing.block_rule import USER
from thebes.data.growing.source import GrowingSource
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.policy import PolicyRule, contexts_of
from thebes.site.dataset import GROWING, DataSet, span
from thebes.site.home import SiteHome


def place_of(home: SiteHome, name: str) -> Path:
    """Return where the rows of a growing data set lie."""
    return home.folder / GROWING / name


def stream_of(home: SiteHome, dataset: DataSet, ledger: Ledger) -> Stream:
    """A growing data set with its ledger; close it when done."""
    terms = dataset.stream_terms
    if dataset.blocks is None or terms is None:
        raise Mistake("NAME", f"{dataset.name!r} does not grow: its rows lie elsewhere and are only read")
    return Stream(
        dataset.name,
        schema=dataset.schema,
        by=dataset.blocks.by,
        terms=terms,
        ledger=ledger,
        folder=place_of(home, dataset.name),
        source=read_source(GrowingSource, dataset.source),
    )


def context_of(stream: Stream, rule: PolicyRule, asker: str, named: str | None = None) -> Context:
    """For whom somebody asks under a rule: with a budget of their own, or in the contexts that the rule gives them, of
    these only in one that is named; a Refusal where it gives them none, or not that."""
    given = contexts_of(rule, stream.contexts)
    if stream.terms.separate == DEVELOPER:
        return asker
    if named is not None and named not in given:
        raise Refusal(f"{rule} does not let {asker} ask in the context {named[:100]!r}")
    return (given if named is None else (named,)) or None


def turns_of(home: SiteHome, dataset: DataSet, ledger: Ledger) -> Turns | None:
    """Open the account of whose turn it is among the pipelines of a growing data set, where its owner wants that to be
    decided; close it when done."""
    if dataset.blocks is None or not dataset.blocks.schedule:
        return None
    where = place_of(home, dataset.name)
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    cut = dataset.blocks
    return Turns(
        where / "turns.db",
        ledger,
        prefix=f"{dataset.name}/",
        policy=cut.schedule,
        fair=cut.more.get("fair", FAIR),
        lifetime=span(cut.more["lifetime"]) if "lifetime" in cut.more else LIFETIME,
    )


def covered(stream: Stream, blocks: Sequence[str]) -> dict[str, Any]:
    """Tell which rows were asked: how many blocks, and from when to when."""
    names = set(blocks)
    windows = [(b.since, b.until) for b in stream.blocks() if b.name in names]
    told: dict[str, Any] = {"blocks": len(blocks)}
    if stream.by.kind == USER:  # up to which user there are blocks follows from counts
        told["earlier"] = beside(stream.earlier(blocks))
    if windows and windows[0][0] is not None and windows[-1][1] is not None:
        told |= {"since": windows[0][0].isoformat(), "until": windows[-1][1].isoformat()}
    return {**told, "assumption": stream.assumption}


class Streams:
    """Those of one home, kept open until their declaration changes."""

    def __init__(self, home: SiteHome, ledger: Ledger) -> None:
        self._home, self._ledger, self._lock = home, ledger, threading.Lock()
        self._open: dict[str, tuple[DataSet, Stream]] = {}
        self._former: list[Stream] = []

    def __call__(self, dataset: DataSet) -> Stream:
        with self._lock:
            known = self._open.get(dataset.name)
            if known is None or known[0] is not dataset:
                if known is not None:
                    self._former.append(known[1])  # somebody may just be answered from it
                known = self._open[dataset.name] = dataset, stream_of(self._home, dataset, self._ledger)
            return known[1]

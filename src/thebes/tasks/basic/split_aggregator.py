"""The aggregator of a basic task with two servers, both played here by one process: for simulations only.

Each half keeps to what its server would hold; what passes between them is what would travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement
from thebes.privacy.randomness import Randomness
from thebes.sharing import SealingKey, context_of
from thebes.sharing.field import Bytes
from thebes.sharing.prio3 import Flags, PreparedShares
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.aggregation.split_servers import SplitServer, totals
from thebes.tasks.basic.aggregator import BasicAggregator
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.split import influence, statistic
from thebes.tasks.basic.statistics import StatisticAnswer, made_of
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.missing_values import told
from thebes.tasks.protocols import Setting
from thebes.tasks.release import Release
from thebes.tasks.split_reports import AT_ONCE, REPORT, ReceivedReports, layout_of, received

SERVERS = ("the coordinator", "the helper")


class SplitAggregator(BasicAggregator):
    """Hears reports in shares, verifies each with both halves, and opens what both have noised."""

    def __init__(
        self, document: BasicDocument, setting: Setting, *, noise: tuple[Randomness, Randomness] | None = None
    ) -> None:
        """`noise` is what each server draws from, where that is not the setting's: for whoever looks at one alone."""
        if not setting.simulated:
            raise Mistake("server", document.only_simulated_because)
        super().__init__(document, setting)
        self._asked = statistic(document, setting.randomness)
        self._context = context_of(bytes.fromhex(document.digest), self.part)
        self._prio = self._asked.make(self._context)
        self._helper_key = SealingKey.generate()
        verify_key = setting.randomness.words(4).tobytes()
        self._leader, self._helper = (
            SplitServer(number, self._prio, self._asked.noises, verify_key=verify_key, randomness=source)
            for number, source in enumerate(noise or (setting.randomness, setting.randomness))
        )
        self._nonces: set[bytes] = set()

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self._prio)

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return {"helper_key": self._helper_key.public.hex()}

    def hear(self, contributions: Contributions) -> None:
        """Verify a whole batch before anything of it is added: one report that is none refuses all."""
        texts = [str(text) for text in contributions.fields[REPORT].tolist()]
        batches = [received(self._prio, texts[start : start + AT_ONCE]) for start in range(0, len(texts), AT_ONCE)]
        new = [nonce.tobytes() for batch in batches for nonce in batch.nonces]
        if len(set(new)) < len(new) or not self._nonces.isdisjoint(new):
            raise Mistake(f"payload.{REPORT}", "was sent before; make a new report")
        verified = [self._verified(batch) for batch in batches]
        if not all(counted.all() for _, _, counted in verified):
            raise Mistake(f"payload.{REPORT}", "does not prove that it is one answer within bounds")
        for ours, theirs, counted in verified:
            self._leader.add(ours, counted)
            self._helper.add(theirs, counted)
        self._nonces.update(new)

    def _verified(self, batch: ReceivedReports) -> tuple[PreparedShares, PreparedShares, Flags]:
        ours = self._leader.prepared(batch.nonces, batch.public, batch.leader)
        theirs = self._helper.prepared(batch.nonces, batch.public, self._opened(batch))
        held, seed = self._prio.decide([ours.verifier, theirs.verifier])
        agreed = self._leader.confirmed(ours, held, seed) & self._helper.confirmed(theirs, held, seed)
        return ours, theirs, agreed

    def _opened(self, batch: ReceivedReports) -> Bytes:
        """Open the helper's shares, which nobody else can."""
        shares = [
            self._helper_key.open(closed, context=self._context, nonce=nonce.tobytes(), public_share=public.tobytes())
            for closed, nonce, public in zip(batch.sealed, batch.nonces, batch.public, strict=True)
        ]
        return np.frombuffer(b"".join(shares), dtype=np.uint8).reshape(len(shares), self._prio.helper_bytes)

    def conclude(self) -> Release:
        noises, people = self._asked.noises, self.accepted
        sums = totals([self._leader.close(), self._helper.close()], noises)
        first = noises[0].count
        found = self._answer(self._asked.conclude(sums[:first], people), people)
        if len(noises) > 1:
            found = replace(found, missing=told(self._asked.missing(float(sums[first]))))
        parameters = {**found.parameters, "servers": list(SERVERS), "influence": influence(self.document)}
        return self.released(replace(found, parameters=parameters), {}, trust="split")

    def _answer(self, measured: Measurement, people: int) -> StatisticAnswer:
        document, size = self.document, self.document.cells
        declared = (document.bounds or {}).get(document.column)
        bounds = None if declared is None else {document.column: declared.model_dump(mode="json", exclude_none=True)}
        if document.aggregator == "count":
            without = replace(measured, value=people - measured.value)
            return replace(made_of(document, measured, None), missing=told(without))
        if document.aggregator != "histogram" or document.missing != "count":
            return made_of(document, measured, bounds)
        missing = replace(measured, value=float(measured.value[size]))
        found = made_of(document, replace(measured, value=measured.value[:size]), bounds)
        return replace(found, missing=told(missing))

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        raise Mistake("server", self.document.only_simulated_because)

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        raise Mistake("server", self.document.only_simulated_because)

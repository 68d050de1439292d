"""The aggregator of a task with two servers, both played here by one process: for simulations only.

Each half keeps to what its server would hold; what passes between them is what would travel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.randomness import Randomness
from thebes.sharing import Elements, SealingKey, bound_to, elements
from thebes.sharing.field import Bytes, add
from thebes.sharing.prio3 import Flags, PreparedShares
from thebes.tasks.aggregation.people import PeopleDocumentType
from thebes.tasks.aggregation.split_gathering import SplitGathering
from thebes.tasks.aggregation.split_servers import SplitServer, noised
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.protocols import Setting
from thebes.tasks.split_reports import AT_ONCE, REPORT, ReceivedReports, received

SERVERS = ("the coordinator", "the helper")


class BothServers(SplitGathering[PeopleDocumentType]):
    """Hears reports in shares, verifies each with both halves, and opens what both have noised."""

    def __init__(
        self, document: PeopleDocumentType, setting: Setting, *, noise: tuple[Randomness, Randomness] | None = None
    ) -> None:
        """`noise` is what each server draws from, where that is not the setting's: for whoever looks at one alone."""
        if not setting.simulated:
            raise Fault("both servers of a task that is no simulation are played by one process")
        super().__init__(document, setting)
        self._helper_key = SealingKey.generate()
        verify_key = setting.randomness.words(4).tobytes()
        self._leader, self._helper = (
            SplitServer(number, self._prio, self.splitting.noises, verify_key=verify_key, randomness=source)
            for number, source in enumerate(noise or (setting.randomness, setting.randomness))
        )
        self._nonces: set[bytes] = set()

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return {**super().payload(packet, partition), "helper_key": self._helper_key.public.hex()}

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
        bound = bound_to("", self._context)
        shares = [
            self._helper_key.open(closed, context=bound, nonce=nonce.tobytes(), public_share=public.tobytes())
            for closed, nonce, public in zip(batch.sealed, batch.nonces, batch.public, strict=True)
        ]
        return np.frombuffer(b"".join(shares), dtype=np.uint8).reshape(len(shares), self._prio.helper_bytes)

    @property
    def servers(self) -> tuple[str, str]:
        return SERVERS

    def noised(self) -> list[Elements]:
        return [self._leader.close(), self._helper.close()]


class BareSums(SplitGathering[PeopleDocumentType]):
    """Adds up what people would have shared, and lets each server noise its half of that: one half is the sum and the
    other nothing, which as halves open to the same as any. For simulations alone: nobody is protected by it."""

    def __init__(self, document: PeopleDocumentType, setting: Setting) -> None:
        if not setting.simulated:
            raise Fault("bare numbers are for simulations: people's machines send shares")
        super().__init__(document, setting)
        self._total = self._prio.nothing()

    def layout(self, part: str, partition: int = 0) -> Layout:
        return {REPORT: Slot("integer", length=len(self._total))}

    def hear(self, contributions: Contributions) -> None:
        sums = np.asarray(contributions.fields[REPORT], dtype=np.int64).reshape(contributions.count, -1).sum(axis=0)
        self._total = add(self._total, elements(sums))

    @property
    def servers(self) -> tuple[str, str]:
        return SERVERS

    def noised(self) -> list[Elements]:
        halves = (self._total, self._prio.nothing())
        return [noised(half, self.splitting.noises, self.setting.randomness) for half in halves]

"""The aggregator of a task at the leader of two servers: it verifies its own shares, and opens nothing alone.

What must stay true: what it is given in the end is what both servers accepted; its sum leaves this process only
with its own noise and put together with the helper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thebes.privacy.faults import Fault, Mistake
from thebes.sharing import LEADER, Elements
from thebes.sharing.field import Bytes, canonical
from thebes.sharing.prio3 import Flags, PreparedShares
from thebes.tasks.aggregation.split_gathering import SplitGathering
from thebes.tasks.aggregation.split_servers import SplitServer
from thebes.tasks.contributions import Contributions
from thebes.tasks.helped_document import HelpedDocumentType
from thebes.tasks.protocols import Setting
from thebes.tasks.split_reports import REPORT, ReceivedReports, received

#: what contributors are shown of the helper's key
_SHOWN = ("helper_key", "signed_by", "signature")


class LeadingServer(SplitGathering[HelpedDocumentType]):
    """Made anew in each process that needs it; `setting.helper` holds what the helper said so far."""

    def __init__(self, document: HelpedDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._server: SplitServer | None = None

    @property
    def servers(self) -> Sequence[str]:
        return ("the coordinator", f"the helper {self.document.helper}")

    @property
    def of_servers(self) -> dict[str, Any]:
        return {**super().of_servers, "helper_key": self.document.helper_key}

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return {**super().payload(packet, partition), **{name: self._said(name) for name in _SHOWN}}

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse what no honest machine makes of any value: another length, or a number that is no element."""
        found = super().examine(contributions)
        if not self._prio.readable(self._received(found).leader).all():
            raise Mistake(f"payload.{REPORT}", "holds a number that is none of the field's; make a new report")
        return found

    def nonces(self, contributions: Contributions) -> list[bytes]:
        """Name the reports as both servers know them."""
        return [nonce.tobytes() for nonce in self._received(contributions).nonces]

    def verified(self, contributions: Contributions) -> tuple[ReceivedReports, PreparedShares]:
        """Verify the leader's shares as far as one server can."""
        reports = self._received(contributions)
        return reports, self._leader.prepared(reports.nonces, reports.public, reports.leader)

    def confirmed(self, prepared: PreparedShares, counted: Flags, seeds: Bytes) -> Flags:
        """Tell which of the reports that the helper counts this server counts, too."""
        return self._leader.confirmed(prepared, counted, seeds)

    def check_sum(self, total: Sequence[int]) -> None:
        """Refuse a sum of the helper's that has not the form of this task's."""
        found = np.array(total, dtype=np.uint64)
        if found.shape != self._prio.nothing().shape or not canonical(found[None]).all():
            raise Fault("the helper's sum does not have the form of the task")

    def hear(self, contributions: Contributions) -> None:
        """Add up what both servers accepted before."""
        _, prepared = self.verified(contributions)
        if not prepared.readable.all():
            raise Fault("a report that was accepted cannot be read any more")
        self._leader.add(prepared, prepared.readable)

    def noised(self) -> list[Elements]:
        self.check_sum(self._said("sum"))
        return [self._leader.close(), np.array(self._said("sum"), dtype=np.uint64)]

    @property
    def _leader(self) -> SplitServer:
        if self._server is None:
            key = bytes.fromhex(self._said("verify_key"))
            self._server = SplitServer(
                LEADER, self._prio, self.splitting.noises, verify_key=key, randomness=self.setting.randomness
            )
        return self._server

    def _received(self, contributions: Contributions) -> ReceivedReports:
        return received(self._prio, [str(text) for text in contributions.fields[REPORT].tolist()])

    def _said(self, name: str) -> Any:
        if name not in self.setting.helper:
            raise Fault("the helper of a task has not said what is needed")
        return self.setting.helper[name]

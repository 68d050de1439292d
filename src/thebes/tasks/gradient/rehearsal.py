"""The rehearsal of a network: there is none."""

from __future__ import annotations

from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.rehearsal import UNRELATED, Rehearsal


class NetworkRehearsal(Rehearsal[GradientDocument]):
    def refused(self, document: GradientDocument) -> str:
        return UNRELATED


REHEARSAL = NetworkRehearsal()

"""The rehearsal of a training: how often its model tells labels right, or how far off, which stands beside it."""

from __future__ import annotations

from typing import Any

from thebes.tasks.rehearsal import Quantities, Rehearsal
from thebes.tasks.train.kind import TrainDocument


class TrainRehearsal(Rehearsal[TrainDocument]):
    def quantities(self, release: Any) -> Quantities | None:
        return None if release.value is None else {}


REHEARSAL = TrainRehearsal()

"""The aggregator's side of trusted kinds: columns are kept until the phase closes, used once, and forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Setting, State
from thebes.tasks.trusted_columns import TrustedDocument, layout_of

TrustedDocumentType = TypeVar("TrustedDocumentType", bound=TrustedDocument)


class Keeping(Gathering[TrustedDocumentType]):
    """Holds every contribution of one phase in memory; nothing of it is left once the phase has ended."""

    def __init__(self, document: TrustedDocumentType, setting: Setting) -> None:
        super().__init__(document, setting)
        self._heard: list[Mapping[str, NDArray[np.generic]]] = []

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.document.taking_part_tells:
            return super().notes
        return (
            *super().notes,
            "Only people who have a value could agree. So the number of contributors, to which no noise was added, "
            "tells how many have one. (Somebody who agreed in advance, by a rule, and has no value counts with a "
            "stand-in, such as the middle of the range.)",
        )

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self.document)

    def hear(self, contributions: Contributions) -> None:
        self._heard.append(contributions.fields)

    def columns(self) -> Arrays:
        """Everything heard, column by column."""
        names = self.layout(self.part)
        if not self._heard:
            return {name: np.empty(0, dtype=np.float64) for name in names}
        return {name: np.concatenate([np.asarray(batch[name]) for batch in self._heard]) for name in names}

    def advance(self, now: Any, absent: int = 0) -> None:
        super().advance(now, absent)
        if self.state is not State.OPEN:
            self._heard.clear()

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {}, self.columns() if self._heard else {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._heard = [dict(arrays)] if arrays else []

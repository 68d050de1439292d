"""The account of where the time of a task went, phase by phase: the slowest site's computing, the way there and back,
our own work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_PHASES = 500  #: that are told one by one, the last ones
_PARTS = ("compute", "transfer", "aggregation")


class Stopwatch:
    """All in seconds. `told` continues one from before."""

    def __init__(self, told: Mapping[str, Any] | None = None) -> None:
        self._total = {part: float((told or {}).get("total", {}).get(part, 0.0)) for part in _PARTS}
        self._phases: list[dict[str, float]] = list((told or {}).get("phases", []))
        self._compute = 0.0
        self._aggregation = 0.0

    def computed(self, seconds: object) -> None:
        """Note what a site says it took; sites compute side by side, so the slowest counts."""
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 <= seconds <= 1e6:
            self._compute = max(self._compute, float(seconds))

    def worked(self, seconds: float) -> None:
        """Our own work."""
        self._aggregation += seconds

    def phase(self, number: int, answering: float) -> None:
        """A phase is over, in which sites were waited for so long."""
        compute = min(self._compute, answering)
        transfer = max(0.0, answering - compute - self._overlapping(answering))
        spent = {"compute": compute, "transfer": transfer, "aggregation": self._aggregation}
        for part in _PARTS:
            self._total[part] += spent[part]
        self._phases.append({"phase": number, **{part: round(spent[part], 6) for part in _PARTS}})
        del self._phases[:-MOST_PHASES]
        self._compute = self._aggregation = 0.0

    def _overlapping(self, answering: float) -> float:
        """Answers are taken in while others are still on their way."""
        return min(self._aggregation, max(0.0, answering - self._compute))

    def told(self) -> dict[str, Any]:
        return {"total": {part: round(self._total[part], 6) for part in _PARTS}, "phases": list(self._phases)}

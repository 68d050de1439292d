"""The error of an answer at several epsilons, and what of that the sites would allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.simulation.rehearsal import CurvePoint, curve
from thebes.tasks import registry
from thebes.tasks.document import Document
from thebes.tasks.rehearsal import REPEATS


@dataclass(frozen=True)
class ErrorCurve:
    """Points by epsilon: the distance from the exact answer that 95 of 100 answers keep. `caps` is the most that one
    more answer may cost at each site whose rule names you."""

    points: Sequence[CurvePoint]
    caps: Mapping[str, float] = field(default_factory=dict)

    def __iter__(self) -> Iterator[CurvePoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The points as rows of a table, each with the sites that would refuse it: `pandas.DataFrame(curve.rows)`."""
        return [{**point.as_json(), "refused_by": self.refused_by(point.epsilon)} for point in self.points]

    def refused_by(self, epsilon: float) -> list[str]:
        """Name the sites whose cap is below this epsilon."""
        return [site for site, most in self.caps.items() if epsilon > most]

    def __str__(self) -> str:
        lines = [f"{'epsilon':>9} {'plus or minus':>14}"]
        for point in self.points:
            width = "?" if point.half_width is None else figure(point.half_width, 3)
            line = f"{figure(point.epsilon, 3):>9} {width:>14}  {point.of} ({point.basis})"
            refused = self.refused_by(point.epsilon)
            lines.append(line + (f"; beyond the cap of {', '.join(refused)}" if refused else ""))
        return "\n".join(lines)


def drawn(
    document: Document,
    epsilons: Sequence[float],
    rows_about: int | None,
    *,
    schemas: Mapping[str, Schema] | None = None,
    caps: Mapping[str, float] | None = None,
    repeats: int = REPEATS,
) -> ErrorCurve:
    """Work the points out on this machine."""
    kind = registry.rehearsal(document.type)
    if refused := kind.refused(document):
        raise Mistake("document", refused)
    points = curve(document, kind, epsilons, repeats=repeats, schemas=schemas, rows_about=rows_about)
    return ErrorCurve(points, caps or {})

"""The findings of an examination, each of one thing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum


class How(StrEnum):
    """The state of one thing that was examined. Only what is broken makes an examination fail."""

    OK = "ok"
    WARNING = "warning"  #: it works, and will not for long, or not as somebody may think
    ABSENT = "absent"  #: it works without, with less
    BROKEN = "broken"  #: a promise may not be kept, or a process will not start


@dataclass(frozen=True, slots=True)
class HomeFinding:
    """`what` was looked at, `how` it stands, and what to do about it or to know. Never a secret, never a value."""

    how: How
    what: str
    advice: str = ""

    @property
    def line(self) -> str:
        if self.how is How.OK:
            return f"{'ok':<6} {self.what}"
        name = "BROKEN" if self.how is How.BROKEN else str(self.how)
        return f"{name} {self.what} ({self.advice})"

    def as_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def found(good: bool, what: str, advice: str, otherwise: How = How.BROKEN) -> HomeFinding:
    """Fine, or else with this advice."""
    return HomeFinding(How.OK, what) if good else HomeFinding(otherwise, what, advice)

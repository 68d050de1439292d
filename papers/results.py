"""The folder of outcomes, kept so that a report needs no second run: one JSON file each, in a folder of one's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.outcome import Outcome
from thebes.privacy.faults import Mistake

DIGITS = 6  #: that are kept of a number


def published() -> Path:
    """Return the home of the outcomes that were committed. `python -m papers run NAME --home papers/published` renews
    one; the page that tells of them is made with the documentation."""
    return Path(__file__).parent / "published"


class Results:
    """The outcomes under `home`. A quick run never takes the place of a whole one."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "results"

    def keep(self, outcome: Outcome) -> Path:
        """Write it down, in the place of the last one of its name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{outcome.name}{'.quick' if outcome.quick else ''}.json"
        new = path.with_suffix(".new")
        new.write_text(text(outcome), encoding="utf-8")
        new.replace(path)
        return path

    def kept(self, *, quick: bool | None = None) -> dict[str, Outcome]:
        """By name: the quick or the whole runs; where it is not said which, the whole one of both."""
        found: dict[str, Outcome] = {}
        for path in sorted(self._folder.glob("*.json"), key=lambda path: (path.name.endswith(".quick.json"), path)):
            if quick is None or quick == path.name.endswith(".quick.json"):
                outcome = self._read(path)
                found.setdefault(outcome.name, outcome)
        return found

    def _read(self, path: Path) -> Outcome:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return Outcome.from_json(told if isinstance(told, dict) else {})
        except (ValueError, Mistake):
            raise Mistake("--home", f"holds {path.name!r}, which is no outcome: delete it and run it again") from None


def text(outcome: Outcome) -> str:
    """As it is written down: a line for each row, without what a row does not have, so that two can be compared by
    eye."""
    told = outcome.as_json()
    rows = ",\n".join(f"  {json.dumps(_short(row), ensure_ascii=False)}" for row in told.pop("rows"))
    rest = json.dumps(told, indent=1, ensure_ascii=False).removesuffix("\n}")
    return f'{rest},\n "rows": [\n{rows}\n ]\n}}\n'


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for name, value in row.items()
        if value is not None and value != ""
    }

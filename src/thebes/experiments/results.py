"""Where outcomes are kept, so that a report needs no second run: one JSON file each, in a folder of one's own."""

from __future__ import annotations

import json
from pathlib import Path

from thebes.experiments.outcome import Outcome
from thebes.privacy.faults import Mistake


class Results:
    """The outcomes under `home`. A quick run never takes the place of a whole one."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "results"

    def keep(self, outcome: Outcome) -> Path:
        """Write it down, in the place of the last one of its name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{outcome.name}{'.quick' if outcome.quick else ''}.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps(outcome.as_json(), indent=1) + "\n", encoding="utf-8")
        new.replace(path)
        return path

    def kept(self) -> dict[str, Outcome]:
        """By name; of a quick and a whole run the whole one."""
        found: dict[str, Outcome] = {}
        for path in sorted(self._folder.glob("*.json"), key=lambda path: path.name.endswith(".quick.json")):
            outcome = self._read(path)
            found.setdefault(outcome.name, outcome)
        return found

    def _read(self, path: Path) -> Outcome:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
            return Outcome.from_json(told if isinstance(told, dict) else {})
        except (ValueError, Mistake):
            raise Mistake("--home", f"holds {path.name!r}, which is no outcome: delete it and run it again") from None

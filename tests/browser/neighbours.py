"""A coordinator, one person who looks at their pages, and neighbours who take part with them: all real, all made up."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import thebes
from thebes.person.home import Person
from thebes.simulation import example

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import PATIENCE, PersonProcess, coordinator, stopped

NEIGHBOURS = 11
COMMUTES: dict[str, Any] = {
    "tables": {
        "rides": {
            "description": "Every ride to work",
            "columns": {
                "at": {"type": "timestamp", "description": "when it began"},
                "minutes": {"type": "float", "description": "how long it took"},
                "by": {"type": "string", "description": "bicycle, tram, ..."},
                "rain": {"type": "boolean", "description": "whether it rained"},
            },
        }
    }
}
RIDES = [
    {
        "at": f"2026-11-{1 + day:02d}T07:{20 + day % 9:02d}:00Z",
        "minutes": 18.0 + (day * 7) % 13,
        "by": ("bicycle", "bicycle", "tram")[day % 3],
        "rain": day % 4 == 0,
    }
    for day in range(18)
]
RANGE = {"minutes": {"type": "range", "low": 0.0, "high": 120.0}}
MEDIAN: dict[str, Any] = {
    "type": "basic",
    "name": "How long we ride to work",
    "purpose": "Friends would like to know how long a ride to work takes in the middle of us all.",
    "epsilon": 1.0,
    "server": "trusted",
    "featurizer": "SELECT minutes FROM commute.rides",
    "aggregator": "median",
    "bounds": RANGE,
}
ROWS: dict[str, Any] = {
    "type": "bounded",
    "name": "Bicycle or tram",
    "purpose": "The town plans a cycle lane and asks how many of us ride, and how long.",
    "epsilon": 3.0,
    "server": "untrusted",
    "featurizer": "SELECT by, minutes FROM commute.rides",
    "bounds": {"by": {"type": "set", "values": ["bicycle", "tram"], "default": "tram"}, **RANGE},
}
BARS: dict[str, Any] = {
    "type": "basic",
    "name": "What we ride",
    "purpose": "A picture for the neighbourhood's newspaper.",
    "epsilon": 2.0,
    "server": "trusted",
    "featurizer": "SELECT by FROM commute.rides",
    "aggregator": "histogram",
    "bounds": {"by": {"type": "set", "values": ["bicycle", "tram", "car"]}},
}


class Neighbourhood:
    def __init__(self, folder: Path) -> None:
        self.coordinator = coordinator(folder / "coordinator")
        url = self.coordinator.ready()["url"]
        token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.server = thebes.connect(url, token=token, timeout=PATIENCE)
        self.me = PersonProcess(folder / "me", url)
        self.others = [self._neighbour(folder / f"other-{number}", url, number) for number in range(NEIGHBOURS)]
        self.me.ready()
        self.limits(200.0)
        self.origin = str(self.me.process.facts["address"])
        self.front = str(self.me.process.facts["url"])

    def _neighbour(self, home: Path, url: str, number: int) -> Person:
        person = Person(home, coordinator=url, delay=False)
        example.fill(person, seed=number)
        person.register("commute", COMMUTES)
        rides = [{**ride, "minutes": ride["minutes"] + number} for ride in RIDES[number % 5 :]]
        person.insert("commute", "rides", rides)
        return person

    def limits(self, task: float | None) -> None:
        """Let one task take so much without a second question; None: nobody has chosen limits."""
        chosen = None if task is None else {"epsilon": task, "delta": 0.1}
        assert self.me.http.put("/api/settings", json={"task": chosen}).status_code == 200

    def ask(self, document: dict[str, Any], **more: Any) -> str:
        """Put a task up; its id."""
        return str(self.server.submit({"min_count": NEIGHBOURS + 1, **document, **more}).task_id)

    def take_part(self, task_id: str, people: int = NEIGHBOURS) -> None:
        """So many of the neighbours contribute."""

        def one(person: Person) -> None:
            person.accept(task_id)
            person.wait(task_id, timeout=PATIENCE)

        with ThreadPoolExecutor(4) as crowd:
            list(crowd.map(one, self.others[:people]))

    def session(self) -> str:
        """A new one-time address for a browser."""
        return str(self.me.http.post("/api/session", json={}).json()["url"])

    def bring(self, app: str, declaration: dict[str, Any], table: str, rows: list[dict[str, Any]]) -> None:
        """Do as a collector does: declare, then insert, over the REST interface."""
        assert self.me.http.post(f"/app/{app}/register", json=declaration).status_code == 200
        assert self.me.http.post(f"/app/{app}/insert", json={"table": table, "rows": rows}).status_code == 200

    def close(self) -> None:
        for person in self.others:
            person.close()
        self.me.http.close()
        self.server.close()
        stopped([self.me.process, self.coordinator])

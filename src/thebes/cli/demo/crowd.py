"""Many people on one machine, for `thebes demo`: a few processes, in each many homes, all over HTTP.

Every person has a home with keys, task store, rows and ledger of their own and decides by standing rules; only the
process is shared. Run as a module this is one such process, which hears its work as lines of JSON.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from thebes.cli.processes import Process, end_with_parent
from thebes.person.home import Person
from thebes.privacy.faults import Fault, Refusal, ThebesError
from thebes.simulation import population
from thebes.simulation.example import give
from thebes.tasks import registry
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Conflict, NotFound
from thebes.wire.server_options import hold_many

MOST_TOGETHER = 150  #: people in one process; each keeps some twenty files open
#: people of one process who answer at the same time, mostly waiting: for the disk, the coordinator, and the moment at
#: which a network's gradient may leave
AT_ONCE = 6
YES = 0.9  #: how likely a person is to take part in any one task
#: what these people may spend in a month: more than a careful person would, so that the demo can be played with
ALLOWANCE = {trust: {"epsilon": 200.0, "overall_epsilon": 1000.0} for trust in ("local", "trusted")}
ANSWER_SECONDS = 120.0


class Crowd:
    """The processes together. In them are the first `people` of a population of `size` drawn with `seed`, with the
    same `settings`. `started` hears
    hears of each process at once, and stops it; `heed` is called while they are waited for."""

    def __init__(
        self,
        coordinator: str,
        folder: Path,
        *,
        people: int,
        size: int,
        seed: int,
        settings: Mapping[str, Any],
        started: Callable[[Process], None],
        heed: Callable[[], None],
    ) -> None:
        count = min(people, max(2, min(os.cpu_count() or 1, 8), -(-people // MOST_TOGETHER)))
        ends = [people * place // count for place in range(count + 1)]
        self._processes: list[Process] = []
        for place in range(count):
            name = f"crowd-{place}"
            process = Process(name, "thebes.cli.demo.crowd", log=folder / f"{name}.log", heed=heed)
            started(process)
            self._processes.append(process)
            work = {"coordinator": coordinator, "homes": str(folder), "size": size, "seed": seed}
            process.tell({**work, "settings": dict(settings), "first": ends[place], "end": ends[place + 1]})

    def open(self, told: Callable[[int], None]) -> None:
        """Wait until everybody's home is open; `told` hears how many are."""
        opened = 0
        for process in self._processes:
            while not (line := process.hear(ANSWER_SECONDS)).get("ready"):
                opened += 1 if "opened" in line else 0
                told(opened)

    def join(self, group: str, codes: Mapping[int, str]) -> None:
        """Everybody with a code joins the group."""
        for process in self._processes:
            process.tell({"join": group, "codes": {str(number): code for number, code in codes.items()}})
        for process in self._processes:
            while "joined" not in process.hear(ANSWER_SECONDS):
                pass

    def answer(
        self,
        task_id: str,
        most: int,
        told: Callable[[int], None],
        *,
        group: str | None = None,
        leave: Collection[str] = (),
    ) -> list[int]:
        """Ask people who have not been asked about this task, until `most` have sent a contribution or nobody is left.

        Gives who did; `told` hears of each. Of a task for a `group` only its members are asked. Their rules cover every
        open task, so they say no to those to `leave`.
        """
        count = len(self._processes)
        for place, process in enumerate(self._processes):
            share = most // count + (place < most % count)
            left = [each for each in leave if each != task_id]
            process.tell({"task_id": task_id, "most": share, "group": group, "leave": left})
        sent: list[int] = []
        for process in self._processes:
            while "asked" not in (line := process.hear(ANSWER_SECONDS)):
                sent.append(line["sent"])
                told(len(sent))
        return sent


class Homes:
    """The people of one process."""

    def __init__(self, work: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        self._say = say
        # One connection pool and one set of certificates for all; each person still asks with their own words.
        self._client = CoordinatorClient(work["coordinator"], retries=1)
        everybody = population(work["size"], work["seed"])
        most = ALLOWANCE["local"]["epsilon"]
        rules = [{"type": type_, "epsilon_at_most": most, "probability": YES} for type_ in registry.people_types()]

        def come_in(number: int) -> Person:
            home = Path(work["homes"]) / f"person-{number}"
            person = Person(home, coordinator=work["coordinator"], delay=False, client=self._client)
            give(person, everybody[number])
            person.set_settings(work["settings"])
            person.set_rules(rules)
            say({"opened": number})
            return person

        numbers = range(work["first"], work["end"])
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._people = dict(zip(numbers, pool.map(come_in, numbers), strict=True))
        self._unasked: dict[str, list[int]] = {}
        self._left: set[tuple[int, str]] = set()
        self._members: dict[str, list[int]] = {}

    def join(self, group: str, codes: Mapping[str, str]) -> None:
        """Those of them who have a code join the group."""
        members = self._members[group] = [number for number in self._people if str(number) in codes]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for joining in [pool.submit(self._people[n].enrol, group, codes[str(n)]) for n in members]:
                joining.result()

    def answer(self, task_id: str, most: int, *, group: str | None = None, leave: Collection[str] = ()) -> None:
        """Ask people, or a group's members, in random order until `most` have sent. Whoever is asked leaves some other
        tasks alone."""
        among = list(self._people) if group is None else self._members.get(group, [])
        order = self._unasked.setdefault(task_id, random.sample(among, len(among)))
        taking = threading.Lock()
        left = most

        def next_person() -> Iterator[int]:
            while True:
                with taking:
                    if left <= 0 or not order:
                        return
                    number = order.pop()
                yield number

        def some_people() -> None:
            nonlocal left
            for number in next_person():
                with taking:
                    left -= 1  # this one's place, given back if it comes to nothing
                try:
                    self._leave_alone(number, leave)
                    sent = self._take_part(self._people[number], task_id)
                except ThebesError as error:
                    sys.stderr.write(f"person {number}: {error}\n")
                    sent = False
                if sent:
                    self._say({"sent": number})
                else:
                    with taking:
                        left += 1

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(some_people) for _ in range(AT_ONCE)]:
                future.result()

    def _leave_alone(self, number: int, leave: Collection[str]) -> None:
        for task_id in leave:
            if (number, task_id) not in self._left:
                self._left.add((number, task_id))
                with suppress(Conflict, NotFound):  # who has taken part already, or comes too late
                    self._people[number].decline(task_id)

    def _take_part(self, person: Person, task_id: str) -> bool:
        """Apply the person's rules and return whether they agreed and the contribution arrived."""
        person.apply_rules()
        try:
            return str(person.wait(task_id, timeout=ANSWER_SECONDS / 2)["state"]) in ("sent", "done")
        except NotFound:  # the coin said no
            return False

    def close(self) -> None:
        for person in self._people.values():
            person.close()


def _work() -> None:
    """Hear of the people, then of tasks, until the input closes."""
    hold_many()
    saying = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with saying:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()

    homes = Homes(json.loads(sys.stdin.readline()), say)
    try:
        say({"ready": True})
        for line in sys.stdin:
            asked = json.loads(line)
            if "join" in asked:
                homes.join(asked["join"], asked["codes"])
                say({"joined": asked["join"]})
                continue
            homes.answer(asked["task_id"], asked["most"], group=asked["group"], leave=asked["leave"])
            say({"asked": asked["task_id"]})
    finally:
        homes.close()


if __name__ == "__main__":
    end_with_parent()
    try:
        _work()
    except (Fault, Refusal) as error:
        sys.exit(f"thebes: {error}")

"""Blows that befall a world: one after another, drawn from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from evidence.chaos.world import World

_SKEW_SECONDS = 600
#: A person's machine sends no earlier than at a moment drawn at consent: what it drew with a clock that was ahead it
#: waits for, so this is also how long calm may take.
_SKEW_SECONDS_OF_PEOPLE = 45
_MOST_ROOM = 48 * 1024
_MOST_PARTS = 12  #: processes that one of them starts
_BEFORE = 4  #: questions that are under way when the first blow falls


@dataclass(frozen=True)
class Blow:
    """A blow: what to tell of it, what it does, after how many seconds it ends, and how."""

    name: str
    strike: Callable[[], None]
    seconds: float = 0.0
    end: Callable[[], None] = lambda: None


def drawn(world: World, dice: random.Random) -> Blow:
    """The next one."""
    kinds = {"kill": 5, "part": 3, "disk": 3, "cut": 2, "slow": 2, "shut": 1, "again": 3}
    if world.store is not None:
        kinds["store"] = 3
    kind = dice.choices(list(kinds), list(kinds.values()))[0]
    victim = dice.choice([world.coordinator, *world.processes])
    wire = dice.choice(world.wires)
    which = {world.web: "people", world.links: "sites"}[wire]
    seconds = round(0.2 + 1.3 * dice.random(), 2)
    most = _SKEW_SECONDS_OF_PEOPLE if victim in world.people else _SKEW_SECONDS
    skew = float(dice.randint(-most, most)) if dice.random() < 0.4 else 0.0
    skew = 0.0 if victim in world.sites else skew  # nothing at a site goes by the time
    room, place, part = dice.randrange(_MOST_ROOM), dice.randrange(1, 4), dice.randrange(_MOST_PARTS)
    if kind == "kill":
        told = f"{victim.name} is killed, and starts {seconds} s later" + (f", {skew:+.0f} s off" if skew else "")
        return Blow(told, victim.kill, seconds, lambda: victim.start(skew))
    if kind == "part":
        return Blow(f"a process that {victim.name} started is killed", lambda: victim.kill_part(part))
    if kind == "disk":
        told = f"{victim.name} has {room} bytes left on its disk for {seconds} s"
        return Blow(told, lambda: victim.fill(room), seconds, victim.clear)
    if kind == "store":
        return Blow("every connection to the coordinator's database is cut", world.cut_store)
    if kind == "cut":
        return Blow(f"every connection of {which} is cut", wire.cut)
    if kind == "slow":

        def slow() -> None:
            wire.slowness = 0.3

        return Blow(f"the line of {which} is slow for {seconds} s", slow, seconds, wire.calm)
    if kind == "shut":

        def shut() -> None:
            wire.shut = True
            wire.cut()

        return Blow(f"nobody of {which} gets through for {seconds} s", shut, seconds, wire.calm)
    return Blow(f"{place * 4} earlier messages of {which} come again", lambda: wire.repeat(place * 4))


def storm(world: World, dice: random.Random, seconds: float, tell: Callable[[str], None]) -> int:
    """Blows and questions until the time is over; how many blows fell."""
    for number in range(_BEFORE):
        world.ask(world.document(number))
    end, blows = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        world.ask(world.document(_BEFORE + blows))
        blow = drawn(world, dice)
        tell(blow.name)
        blow.strike()
        time.sleep(blow.seconds)
        blow.end()
        world.look()
        time.sleep(0.6 * dice.random())
        blows += 1
    return blows

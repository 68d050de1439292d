"""Attacks on split trust by one of its two servers: everybody but one person is the attacker's own, the proofs are
verified, and of the opened sums the attacker takes off whatever it added itself. What is left is the other's noise.

All that either has before sums are said is attacked in `share_transcripts`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system
from thebes.privacy.stability import change_of
from thebes.privacy.transformations.counts import Count, HistogramCounts
from thebes.sharing import LEADER, Prio3, context_of
from thebes.tasks.aggregation.split_servers import CoordinateNoise, SplitServer, totals
from thebes.tasks.audit.case import Audited, Case, Draw, Floats, repeatedly

REPLACE = Adjacency.REPLACE_ONE
_CHANGE = change_of(REPLACE, public_size=True)
_CONTEXT = context_of(bytes(32), "audit")
_HELPER = 1
_DRAWS = 20_000
_PEOPLE = 5

_COUNT = Laplace(1).noise(Count().sensitivity(_CHANGE))
_CELLS = Laplace(1).noise(HistogramCounts(3).sensitivity(_CHANGE))


def cases() -> list[Case]:
    """List what each server learns of one person, of a count and of a histogram."""
    return [
        _attacked("split, what the helper learns of a count", _HELPER, _COUNT),
        _attacked("split, what the leader learns of a count", LEADER, _COUNT),
        _attacked("split, what the helper learns of a histogram", _HELPER, _CELLS, cells=3),
        _attacked("split, what the leader learns of a histogram", LEADER, _CELLS, cells=3),
    ]


def broken() -> list[Case]:
    """List noise that only both servers together would add enough of, or that falls short by 30 %."""
    short = replace(_COUNT, drawn_scale=_COUNT.drawn_scale * 0.7)
    half = replace(_COUNT, drawn_scale=_COUNT.drawn_scale / 2)
    none = replace(_COUNT, drawn_scale=0.0)
    return [
        replace(
            _attacked("split, noise of the helper is 30 % short", LEADER, short),
            positive_control=True,
            draws=3 * _DRAWS,
        ),
        replace(_attacked("split, half of the noise at each server", _HELPER, half), positive_control=True),
        replace(_attacked("split, noise at one server only", LEADER, none), positive_control=True),
    ]


def _attacked(name: str, attacker: int, noise: Additive, *, cells: int = 1) -> Audited:
    one, other = (_seen(attacker, noise, cells, own) for own in (0, 1))
    return Audited(name, 1.0, 0.0, REPLACE, one, other, draws=_DRAWS)


def _seen(attacker: int, noise: Additive, cells: int, own: int) -> Draw:
    """Draw what one server knows of the sums, where the person says 0 or 1, or is in the first cell or the second."""
    prio = Prio3.count(_CONTEXT) if cells == 1 else Prio3.histogram(cells, _CONTEXT)
    noises = [CoordinateNoise(noise, cells)]
    people = np.zeros((_PEOPLE, cells), dtype=np.int64)
    people[:, -1] = 1
    people[0] = own if cells == 1 else np.eye(cells, dtype=np.int64)[own]
    drawn = system().words(_PEOPLE * (2 + prio.randomness_bytes // 8)).view(np.uint8).reshape(_PEOPLE, -1)
    nonces, chance = drawn[:, :16].copy(), drawn[:, 16:].copy()
    made, key = prio.shard(people, nonces, chance), system().words(4).tobytes()
    prepared = [prio.prepare(number, key, nonces, made.public, made.shares[number]) for number in (LEADER, _HELPER)]
    held, seed = prio.decide([one.verifier for one in prepared])
    counted = [prio.confirmed(one, held, seed) for one in prepared]
    honest = 1 - attacker

    def once() -> Floats:
        server = SplitServer(honest, prio, noises, verify_key=key, randomness=system())
        server.add(prepared[honest], counted[honest])
        return totals([server.close(), prio.aggregate(prepared[attacker], counted[attacker])], noises)

    return repeatedly(once)

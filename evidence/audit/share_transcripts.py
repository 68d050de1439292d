"""All that one server of split trust has of a person's report before sums are said, held against a simulator that was
never told of the person: an attack that tells the two apart tells of the person.

The server has its share, what the other one says of it, and with its own part the sum of both. Besides, it made up a
report whose every bit it knows, and takes that one's share off.
"""

from __future__ import annotations

import numpy as np

from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system
from thebes.sharing import LEADER, Elements, Prio3, context_of
from thebes.sharing.expansion import NONCE_BYTES
from thebes.sharing.field import ELEMENT_BYTES, ORDER, Bytes, add, read, subtract, written
from thebes.tasks.audit.case import Audited, Case, Draw, Floats

_CONTEXT = context_of(bytes(32), "audit")
_HELPER = 1
_NOTHING = 1e-6  #: what is claimed is that nothing is told; a claim is a number above 0
_REPORTS = {"a count": Prio3.count(_CONTEXT), "a histogram": Prio3.histogram(3, _CONTEXT)}


def cases() -> list[Case]:
    """List what each server has of a report: of a count, and of a histogram."""
    named = {LEADER: "leader", _HELPER: "helper"}
    return [
        _beside_simulator(f"split, what the {named[server]} has of {what}", prio, server)
        for what, prio in _REPORTS.items()
        for server in named
    ]


def broken() -> list[Case]:
    """List a report whose shares were cut by the chance of another one."""
    prio = _REPORTS["a histogram"]
    return [_beside_simulator("split, one chance for two reports", prio, LEADER, chance_again=True)]


def _beside_simulator(name: str, prio: Prio3, server: int, *, chance_again: bool = False) -> Audited:
    real, simulated = _report(prio, server, chance_again), _simulation(prio, server)
    return Audited(name, _NOTHING, 0.0, Adjacency.REPLACE_ONE, real, simulated, positive_control=chance_again)


def _report(prio: Prio3, server: int, chance_again: bool) -> Draw:
    """Draw what one server has of a report of the first cell; it made up one of the last."""
    first = np.eye(prio.circuit.outputs, dtype=np.int64)[:1]

    def draw(n: int) -> Floats:
        person, invented = np.repeat(first, n, axis=0), np.repeat(first[:, ::-1], n, axis=0)
        nonces, chance, key = _bytes(n, NONCE_BYTES), _bytes(n, prio.randomness_bytes), _key()
        made = prio.shard(person, nonces, chance)
        known = prio.shard(invented, nonces, chance if chance_again else _bytes(n, prio.randomness_bytes))
        parts = [prio.prepare(number, key, nonces, made.public, share) for number, share in enumerate(made.shares)]
        own, other = parts[server].verifier, parts[1 - server].verifier
        return _seen(prio, _words(made.shares[server]), _words(known.shares[server]), own, other)

    return draw


def _simulation(prio: Prio3, server: int) -> Draw:
    """Draw the same without a person: shares are chance, and the other server says what makes the sum that of a proof
    that holds, whose first number is 0 and whose last is the gadget's of those between, which are chance."""

    def draw(n: int) -> Floats:
        length = prio.leader_bytes if server == LEADER else prio.helper_bytes
        mine, invented = (written(_uniform(n, length // ELEMENT_BYTES)) for _ in range(2))
        own = prio.prepare(server, _key(), _bytes(n, NONCE_BYTES), _bytes(n, prio.public_bytes), mine).verifier
        between = _uniform(n * prio.proofs, prio.circuit.arity)
        whole = np.concatenate([0 * between[:, :1], between, prio.circuit.gadget(between)[:, None]], axis=1)
        other = written(subtract(whole.reshape(n, -1), _verifier(prio, own)))
        rest = _bytes(n, prio.verifier_bytes - other.shape[1])
        return _seen(prio, _words(mine), _words(invented), own, np.concatenate([other, rest], axis=1))

    return draw


def _seen(prio: Prio3, mine: Elements, invented: Elements, own: Bytes, other: Bytes) -> Floats:
    """Put a transcript as numbers between 0 and 1, as an attacker looks at them."""
    both = add(_verifier(prio, own), _verifier(prio, other))
    numbers = np.concatenate([mine, subtract(mine, invented), _verifier(prio, other), both], axis=1)
    return np.asarray(numbers / float(ORDER), dtype=np.float64)


def _words(share: Bytes) -> Elements:
    """Return a share as elements of the field: a seed too, whose words are larger than these in 1 of 2^32 draws."""
    return np.asarray(read(np.ascontiguousarray(share)) % np.uint64(ORDER), dtype=np.uint64)


def _verifier(prio: Prio3, told: Bytes) -> Elements:
    proofs = prio.proofs * (prio.circuit.arity + 2)
    return read(np.ascontiguousarray(told[:, : ELEMENT_BYTES * proofs]))


def _uniform(n: int, count: int) -> Elements:
    """Draw elements: words that are none are 1 in 2^32, and make no difference that could be counted here."""
    return np.asarray(system().words(n * count).reshape(n, count) % np.uint64(ORDER), dtype=np.uint64)


def _bytes(n: int, length: int) -> Bytes:
    return system().words(-(-n * length // 8)).view(np.uint8)[: n * length].reshape(n, length)


def _key() -> bytes:
    return system().words(4).tobytes()

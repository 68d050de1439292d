"""Reports in shares: made by a contributor, verified by servers that each hold one share, added up, and opened as sums.

Promise: while one server keeps its share and its sum to itself, the others learn of an honest report nothing but what
the opened sums tell, whatever they do. A share alone is uniform: the helper's is a seed, and the leader's is an
encoding and proof less the expansion of that seed, hence uniform while the expansion is unknown. The verifier shares
that are exchanged can be made without the report (`proofs`, zero-knowledge). Sums of several reports are opened only:
noise on them is the caller's work. And while both servers follow this, what is added up is what an honest person may
send: others are found but for odds of (checks + 2 size + chunk) / ORDER to the power of the number of proofs, for each
choice of the joint randomness that a liar tries; chunk is 0 where there is none.

Not promised: that the sum is right if a server lies; that taking part is hidden. Not proved here: the whole protocol
in the ideal permutation model, which Davis, Patton, Rosulek & Schoppmann 2023 do; no outside party has audited this.

Source: draft-irtf-cfrg-vdaf, Prio3 (version byte 18), after Corrigan-Gibbs & Boneh 2017 and Boneh et al. 2019. Its
vectors are held byte for byte. Several proofs, and vectors and histograms over Field64, have numbers of ours from the
range for private use, so that nothing made here opens as a report of somebody else's system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.sharing.circuits import Circuit, CountCircuit, Integers, SumCircuit, VectorCircuit
from thebes.sharing.expansion import NONCE_BYTES, SEED_BYTES, Expansion, Usage, joined
from thebes.sharing.field import ELEMENT_BYTES, Bytes, Elements, add, canonical, read, subtract, total, written
from thebes.sharing.proofs import Proofs

COUNT, SUM, VECTOR, HISTOGRAM = 1, 2, 0xFFFF5401, 0xFFFF5402
#: wherever there is joint randomness, as liars may look for good values before they send anything
PROOFS = 3
LEADER = 0

Flags = NDArray[np.bool_]


def context_of(task_digest: bytes, part: str) -> bytes:
    """Return the context of one part of one task: a report that was made for it proves nothing anywhere else."""
    if len(task_digest) != 32:
        raise Mistake("task_digest", "must be the 32 bytes of the task's digest")
    return b"thebes/sharing/v1" + task_digest + part.encode()


@dataclass(frozen=True, slots=True)
class ShardedReports:
    """Reports as they leave: what all servers may see of each, and a share for each server, the leader's first."""

    public: Bytes
    shares: tuple[Bytes, ...]


@dataclass(frozen=True, slots=True)
class PreparedShares:
    """One server's view of reports before the others were heard. `readable` are those that can be judged at all."""

    outputs: Elements
    verifier: Bytes  #: for the other servers
    seed: Bytes  #: that the joint randomness came from, as far as this server can tell
    readable: Flags


class Prio3:
    """Everything that contributors and servers do with reports of one circuit in one context, many at once."""

    def __init__(
        self, circuit: Circuit, context: bytes, *, algorithm: int, proofs: int | None = None, shares: int = 2
    ) -> None:
        if not 2 <= shares <= 255:
            raise Mistake("shares", "must lie between 2 and 255")
        self.circuit = circuit
        self.proofs = (PROOFS if circuit.joint else 1) if proofs is None else proofs
        self.shares = shares
        self._proofs = Proofs(circuit)
        self._expansion = Expansion(algorithm, context)
        self._blinded = circuit.joint > 0

    @classmethod
    def count(cls, context: bytes) -> Prio3:
        """Reports of one bit."""
        return cls(CountCircuit(), context, algorithm=COUNT)

    @classmethod
    def sum(cls, largest: int, context: bytes) -> Prio3:
        """Reports of one number, 0 .. largest."""
        return cls(SumCircuit(largest), context, algorithm=SUM)

    @classmethod
    def vector(cls, largest: Sequence[int], context: bytes) -> Prio3:
        """Reports of several numbers, each with a largest of its own."""
        return cls(VectorCircuit(largest), context, algorithm=VECTOR)

    @classmethod
    def histogram(cls, cells: int, context: bytes) -> Prio3:
        """Reports of which one of several cells is one's own."""
        return cls(VectorCircuit([1] * cells, one_hot=True), context, algorithm=HISTOGRAM)

    @property
    def randomness_bytes(self) -> int:
        """The uniform bytes that one report takes: seed and blind of every helper, blind of the leader, and a seed."""
        return SEED_BYTES * (self.shares * (2 if self._blinded else 1))

    @property
    def public_bytes(self) -> int:
        return SEED_BYTES * self.shares if self._blinded else 0

    @property
    def leader_bytes(self) -> int:
        return ELEMENT_BYTES * (self.circuit.inputs + self._all_proofs) + (SEED_BYTES if self._blinded else 0)

    @property
    def helper_bytes(self) -> int:
        return SEED_BYTES * (2 if self._blinded else 1)

    @property
    def verifier_bytes(self) -> int:
        return ELEMENT_BYTES * self._all_verifiers + (SEED_BYTES if self._blinded else 0)

    def shard(self, measurements: Integers, nonces: Bytes, randomness: Bytes) -> ShardedReports:
        """Make a report of each row of `measurements`. Nonces are public and unique; `randomness` is neither shown nor
        used again."""
        count = len(measurements)
        _sized("nonces", nonces, count, NONCE_BYTES)
        _sized("randomness", randomness, count, self.randomness_bytes)
        encoded = self.circuit.encode(measurements)
        prove_seed, helpers, leader_blind = self._seeds(randomness)
        seeds = [helper[:, :SEED_BYTES] for helper in helpers]
        mine, rest = encoded, np.zeros((count, self._all_proofs), dtype=np.uint64)
        public = np.empty((count, 0), dtype=np.uint8)
        expanded = [self._expanded(server, seed) for server, seed in enumerate(seeds, 1)]
        for other, proof in expanded:
            mine, rest = subtract(mine, other), add(rest, proof)
        if self._blinded:
            blinds = np.concatenate([leader_blind, *(helper[:, SEED_BYTES:] for helper in helpers)])
            everybody = np.concatenate([mine, *(other for other, _ in expanded)])
            servers = np.repeat(np.arange(self.shares, dtype=np.uint8), count)
            parts = self._parts(servers, blinds, np.tile(nonces, (self.shares, 1)), everybody)
            public = np.concatenate(np.split(parts, self.shares), axis=1)
        joint = self._joint(self._joint_seed(public))
        proof = subtract(self._proved(encoded, prove_seed, joint), rest)
        leader = np.concatenate([written(mine), written(proof), leader_blind], axis=1)
        return ShardedReports(public, (leader, *helpers))

    def prepare(self, server: int, verify_key: bytes, nonces: Bytes, public: Bytes, share: Bytes) -> PreparedShares:
        """Verify one server's shares, as far as that goes without the others.

        `verify_key` is 32 bytes that the servers share and no contributor may know, since it decides the point at
        which a proof is looked at. Rows that cannot be judged give zeros to the others.
        """
        count = len(nonces)
        if len(verify_key) != SEED_BYTES:
            raise Mistake("verify_key", "must be 32 bytes")
        _sized("nonces", nonces, count, NONCE_BYTES)
        _sized("public", public, count, self.public_bytes)
        _sized("share", share, count, self.leader_bytes if server == LEADER else self.helper_bytes)
        encoded, proof, blind = self._opened(server, share)
        readable = canonical(encoded) & canonical(proof)
        if not readable.all():
            encoded, proof = encoded * readable[:, None], proof * readable[:, None]
        part = seed = np.empty((count, 0), dtype=np.uint8)
        if self._blinded:
            part = self._parts(np.full(count, server, dtype=np.uint8), blind, nonces, encoded)
            parts = public.copy()
            parts[:, server * SEED_BYTES : (server + 1) * SEED_BYTES] = part
            seed = self._joint_seed(parts)
        query = self._query(verify_key, nonces)
        verifier = self._proofs.query(
            np.repeat(encoded, self.proofs, axis=0),
            proof.reshape(count * self.proofs, -1),
            query,
            self._joint(seed),
            self.shares,
        )
        readable &= self._proofs.sound_points(query).reshape(count, self.proofs).all(axis=1)
        told = np.concatenate([written(verifier.reshape(count, -1)), part], axis=1) * readable[:, None]
        return PreparedShares(self.circuit.truncate(encoded), told.astype(np.uint8), seed, readable)

    def readable(self, shares: Bytes) -> Flags:
        """Tell which of the leader's shares hold nothing but elements."""
        _sized("shares", shares, len(shares), self.leader_bytes)
        encoded, proof, _ = self._opened(LEADER, shares)
        return canonical(encoded) & canonical(proof)

    def decide(self, verifiers: Sequence[Bytes]) -> tuple[Flags, Bytes]:
        """Tell from all servers' verifier shares which proofs hold, and the seed that each server must find its own
        equal to (`confirmed`)."""
        if len(verifiers) != self.shares:
            raise Mistake("verifiers", f"must be {self.shares} shares")
        count, end = len(verifiers[0]), ELEMENT_BYTES * self._all_verifiers
        found = np.zeros((count, self._all_verifiers), dtype=np.uint64)
        valid = np.ones(count, dtype=np.bool_)
        for raw in verifiers:
            _sized("verifiers", raw, count, self.verifier_bytes)
            one = read(raw[:, :end])
            there = canonical(one)
            valid &= there
            found = add(found, one * there[:, None])
        held = self._proofs.decide(found.reshape(count * self.proofs, -1)).reshape(count, self.proofs).all(axis=1)
        return valid & held, self._joint_seed(np.concatenate([raw[:, end:] for raw in verifiers], axis=1))

    def confirmed(self, prepared: PreparedShares, held: Flags, seed: Bytes) -> Flags:
        """Tell which reports this server adds up: the proofs hold, and the joint randomness came from the shares that
        the servers have, not from others that a liar chose."""
        found: Flags = held & prepared.readable & (prepared.seed == seed).all(axis=1)
        return found

    def aggregate(self, prepared: PreparedShares, accepted: Flags) -> Elements:
        """Return this server's share of the sum of the accepted reports."""
        return total(prepared.outputs[accepted], 0) if accepted.any() else self.nothing()

    def nothing(self) -> Elements:
        """Return the share of the sum of no reports."""
        return np.zeros(self.circuit.outputs, dtype=np.uint64)

    @property
    def _all_proofs(self) -> int:
        return self.proofs * self._proofs.length

    @property
    def _all_verifiers(self) -> int:
        return self.proofs * self._proofs.verifier_length

    def _seeds(self, randomness: Bytes) -> tuple[Bytes, list[Bytes], Bytes]:
        width = self.helper_bytes
        helpers = [randomness[:, at * width : (at + 1) * width] for at in range(self.shares - 1)]
        return randomness[:, -SEED_BYTES:], helpers, randomness[:, (self.shares - 1) * width : -SEED_BYTES]

    def _expanded(self, server: int, seeds: Bytes) -> tuple[Elements, Elements]:
        count = len(seeds)
        found = []
        for usage, binder, length in (
            (Usage.MEASUREMENT_SHARE, bytes([server]), self.circuit.inputs),
            (Usage.PROOF_SHARE, bytes([self.proofs, server]), self._all_proofs),
        ):
            found.append(self._expansion.elements(usage, seeds, joined(count, binder), length))
        return found[0], found[1]

    def _opened(self, server: int, share: Bytes) -> tuple[Elements, Elements, Bytes]:
        if server != LEADER:
            return *self._expanded(server, share[:, :SEED_BYTES]), share[:, SEED_BYTES:]
        middle = ELEMENT_BYTES * self.circuit.inputs
        end = middle + ELEMENT_BYTES * self._all_proofs
        return read(share[:, :middle]), read(share[:, middle:end]), share[:, end:]

    def _parts(self, servers: Bytes, blinds: Bytes, nonces: Bytes, encoded: Elements) -> Bytes:
        binder = joined(len(nonces), servers[:, None], nonces, written(encoded))
        return self._expansion.seeds(Usage.JOINT_PART, blinds, binder)

    def _joint_seed(self, parts: Bytes) -> Bytes:
        if not self._blinded:
            return parts
        return self._expansion.seeds(Usage.JOINT_SEED, np.zeros((len(parts), SEED_BYTES), dtype=np.uint8), parts)

    def _joint(self, seeds: Bytes) -> Elements:
        count, each = len(seeds), self.circuit.joint
        if not each:
            return np.empty((count * self.proofs, 0), dtype=np.uint64)
        binder = joined(count, bytes([self.proofs]))
        found = self._expansion.elements(Usage.JOINT_RANDOMNESS, seeds, binder, each * self.proofs)
        return found.reshape(count * self.proofs, each)

    def _query(self, verify_key: bytes, nonces: Bytes) -> Elements:
        count, each = len(nonces), self._proofs.query_length
        keys = joined(count, verify_key)
        binder = joined(count, bytes([self.proofs]), nonces)
        found = self._expansion.elements(Usage.QUERY_RANDOMNESS, keys, binder, each * self.proofs)
        return found.reshape(count * self.proofs, each)

    def _proved(self, encoded: Elements, seeds: Bytes, joint: Elements) -> Elements:
        count, arity = len(encoded), self.circuit.arity
        binder = joined(count, bytes([self.proofs]))
        drawn = self._expansion.elements(Usage.PROVE_RANDOMNESS, seeds, binder, arity * self.proofs)
        several = np.repeat(encoded, self.proofs, axis=0)
        return self._proofs.prove(several, drawn.reshape(-1, arity), joint).reshape(count, self._all_proofs)


def opened(shares: Sequence[Elements]) -> Elements:
    """Return the sum that servers' shares open to: the one step after which noise can no longer be added."""
    found = shares[0]
    for share in shares[1:]:
        found = add(found, share)
    return found


def _sized(argument: str, given: Bytes, count: int, length: int) -> None:
    if given.dtype != np.uint8 or given.shape != (count, length):
        raise Mistake(argument, f"must be {length} bytes for each report")

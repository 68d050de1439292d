"""Prio3 once more, on plain whole numbers, one report at a time, for any field: slow and obvious, to hold ours against.

Polynomials are evaluated by Lagrange's formula with inverses; the permutation works on 64-bit words of Python's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import xor
from typing import TypeVar

_WORD = 2**64 - 1
_Items = TypeVar("_Items", bytes, Sequence[int])


def batches(items: _Items, size: int) -> Iterator[_Items]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _WORD if by else word


def _round_constants() -> list[int]:
    bits, register = [], 1
    for _ in range(7 * 24):
        bits.append(register & 1)
        register = (register << 1) ^ (0x171 if register >> 7 & 1 else 0)
    return [sum(bits[7 * r + j] << (2**j - 1) for j in range(7)) for r in range(24)]


_CONSTANTS = _round_constants()[12:]


def _permuted(lanes: list[int]) -> list[int]:
    grid = [[lanes[x + 5 * y] for y in range(5)] for x in range(5)]
    for constant in _CONSTANTS:
        column = [reduce(xor, grid[x]) for x in range(5)]
        for x in range(5):
            mixed = column[x - 1] ^ _turned(column[(x + 1) % 5], 1)
            grid[x] = [lane ^ mixed for lane in grid[x]]
        (x, y), current = (1, 0), grid[1][0]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, grid[x][y] = grid[x][y], _turned(current, (step + 1) * (step + 2) // 2 % 64)
        grid = [[grid[x][y] ^ (~grid[(x + 1) % 5][y] & grid[(x + 2) % 5][y]) for y in range(5)] for x in range(5)]
        grid[0][0] ^= constant
    return [grid[i % 5][i // 5] & _WORD for i in range(25)]


def turboshake128(message: bytes, length: int, domain: int = 1) -> bytes:
    padded = bytearray(message + bytes([domain]))
    padded += bytes(-len(padded) % 168)
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), 168):
        for i in range(21):
            lanes[i] ^= int.from_bytes(padded[start + 8 * i : start + 8 * i + 8], "little")
        lanes = _permuted(lanes)
    found = b""
    while True:
        found += b"".join(lane.to_bytes(8, "little") for lane in lanes[:21])
        if len(found) >= length:
            return found[:length]
        lanes = _permuted(lanes)


@dataclass(frozen=True)
class PlainField:
    order: int
    generator: int
    generated: int  #: the order of what `generator` generates
    size: int  #: bytes of an element

    def roots(self, count: int) -> list[int]:
        root = pow(self.generator, self.generated // count, self.order)
        return [pow(root, i, self.order) for i in range(count)]

    def value_at(self, point: int, values: Sequence[int]) -> int:
        """Return the value at a point of the polynomial that has these at the first roots of their number, rounded up
        to a power of two, and the least degree."""
        places = self.roots(1 << (len(values) - 1).bit_length())[: len(values)]
        found = 0
        for i, (place, value) in enumerate(zip(places, values, strict=True)):
            above = below = 1
            for j, other in enumerate(places):
                if j != i:
                    above = above * (point - other) % self.order
                    below = below * (place - other) % self.order
            found += value * above * pow(below, -1, self.order)
        return found % self.order

    def written(self, numbers: Sequence[int]) -> bytes:
        return b"".join(number.to_bytes(self.size, "little") for number in numbers)

    def read(self, raw: bytes) -> list[int]:
        return [int.from_bytes(each, "little") for each in batches(raw, self.size)]


FIELD64 = PlainField(2**64 - 2**32 + 1, pow(7, 2**32 - 1, 2**64 - 2**32 + 1), 2**32, 8)
_ORDER128 = 2**66 * 4611686018427387897 + 1
FIELD128 = PlainField(_ORDER128, pow(7, 4611686018427387897, _ORDER128), 2**66, 16)


@dataclass(frozen=True)
class PlainCircuit:
    """`kind` is count, sum, vector or histogram."""

    kind: str
    field: PlainField
    largest: tuple[int, ...] = (1,)
    chunk: int = 1

    @property
    def widths(self) -> list[int]:
        return [each.bit_length() for each in self.largest]

    @property
    def inputs(self) -> int:
        return sum(self.widths)

    @property
    def calls(self) -> int:
        return {"count": 1, "sum": self.inputs}.get(self.kind, -(-self.inputs // self.chunk))

    @property
    def arity(self) -> int:
        return {"count": 2, "sum": 1}.get(self.kind, 2 * self.chunk)

    @property
    def joint(self) -> int:
        return self.calls if self.kind in ("vector", "histogram") else 0

    @property
    def checks(self) -> int:
        return {"count": 1, "sum": self.inputs, "vector": 1, "histogram": 2}[self.kind]

    @property
    def weights(self) -> list[list[int]]:
        return [
            [*(2**i for i in range(width - 1)), most - 2 ** (width - 1) + 1]
            for most, width in zip(self.largest, self.widths, strict=True)
        ]

    def encode(self, measurement: Sequence[int]) -> list[int]:
        found = []
        for number, weights in zip(measurement, self.weights, strict=True):
            top = int(number > 2 ** (len(weights) - 1) - 1)
            rest = number - top * weights[-1]
            found += [*(rest >> i & 1 for i in range(len(weights) - 1)), top]
        return found

    def truncate(self, encoded: Sequence[int]) -> list[int]:
        found, start = [], 0
        for weights in self.weights:
            found.append(sum(w * b for w, b in zip(weights, encoded[start:], strict=False)) % self.field.order)
            start += len(weights)
        return found

    def wires(self, encoded: Sequence[int], joint: Sequence[int], shares: int) -> list[list[int]]:
        order = self.field.order
        if self.kind == "count":
            return [[encoded[0], encoded[0]]]
        if self.kind == "sum":
            return [[bit] for bit in encoded]
        padded = [*encoded, *[0] * (self.calls * self.chunk - len(encoded))]
        constant = pow(shares, -1, order)
        return [
            list(
                chain.from_iterable(
                    (pow(r, j + 1, order) * bit % order, (bit - constant) % order) for j, bit in enumerate(chunk)
                )
            )
            for r, chunk in zip(joint, batches(padded, self.chunk), strict=True)
        ]

    def gadget(self, inputs: Sequence[int]) -> int:
        if self.kind == "sum":
            return (inputs[0] ** 2 - inputs[0]) % self.field.order
        return sum(a * b for a, b in batches(inputs, 2)) % self.field.order

    def results(self, called: Sequence[int], encoded: Sequence[int], shares: int) -> list[int]:
        order = self.field.order
        if self.kind == "count":
            return [(called[0] - encoded[0]) % order]
        if self.kind == "sum":
            return list(called)
        found = [sum(called) % order]
        return found if self.kind == "vector" else [*found, (sum(encoded) - pow(shares, -1, order)) % order]


@dataclass(frozen=True)
class PlainPrio3:
    circuit: PlainCircuit
    algorithm: int
    context: bytes
    proofs: int = 1
    shares: int = 2

    @property
    def size(self) -> int:
        return 1 << self.circuit.calls.bit_length()

    @property
    def proof(self) -> int:
        return self.circuit.arity + 2 * self.size - 1

    def seed(self, usage: int, seed: bytes, binder: bytes, length: int = 32) -> bytes:
        tag = bytes([18, 0]) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + self.context
        return turboshake128(len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed + binder, length)

    def vector(self, usage: int, seed: bytes, binder: bytes, count: int) -> list[int]:
        field, spare = self.circuit.field, 4
        words = field.read(self.seed(usage, seed, binder, field.size * (count + spare)))
        return [word for word in words if word < field.order][:count]

    def helper(self, server: int, seed: bytes) -> tuple[list[int], list[int]]:
        return (
            self.vector(1, seed, bytes([server]), self.circuit.inputs),
            self.vector(2, seed, bytes([self.proofs, server]), self.proof * self.proofs),
        )

    def part(self, server: int, blind: bytes, nonce: bytes, encoded: Sequence[int]) -> bytes:
        return self.seed(7, blind, bytes([server]) + nonce + self.circuit.field.written(encoded))

    def joint(self, seed: bytes) -> list[int]:
        return self.vector(3, seed, bytes([self.proofs]), self.circuit.joint * self.proofs)

    def prove(self, encoded: Sequence[int], drawn: Sequence[int], joint: Sequence[int]) -> list[int]:
        circuit, field = self.circuit, self.circuit.field
        wires = [list(drawn), *circuit.wires(encoded, joint, 1)]
        wires += [[0] * circuit.arity for _ in range(self.size - len(wires))]
        return list(drawn) + [
            circuit.gadget([field.value_at(point, wire) for wire in zip(*wires, strict=True)])
            for point in field.roots(2 * self.size)[:-1]
        ]

    def shard(self, measurement: Sequence[int], nonce: bytes, rand: bytes) -> tuple[bytes, list[bytes]]:
        circuit, field = self.circuit, self.circuit.field
        width = 64 if circuit.joint else 32
        helpers = [rand[i * width : (i + 1) * width] for i in range(self.shares - 1)]
        blind, prove_seed = rand[(self.shares - 1) * width : -32], rand[-32:]
        encoded = circuit.encode(measurement)
        expanded = [self.helper(i, helper[:32]) for i, helper in enumerate(helpers, 1)]
        mine = [(a - sum(b)) % field.order for a, *b in zip(encoded, *(e for e, _ in expanded), strict=True)]
        public, joint = b"", []
        if circuit.joint:
            public = self.part(0, blind, nonce, mine)
            for i, ((other, _), helper) in enumerate(zip(expanded, helpers, strict=True), 1):
                public += self.part(i, helper[32:], nonce, other)
            joint = self.joint(self.seed(6, bytes(32), public))
        drawn = self.vector(4, prove_seed, bytes([self.proofs]), circuit.arity * self.proofs)
        proof: list[int] = []
        for i in range(self.proofs):
            at = slice(i * circuit.joint, (i + 1) * circuit.joint)
            proof += self.prove(encoded, drawn[i * circuit.arity : (i + 1) * circuit.arity], joint[at])
        proof = [(a - sum(b)) % field.order for a, *b in zip(proof, *(p for _, p in expanded), strict=True)]
        return public, [field.written(mine) + field.written(proof) + blind, *helpers]

    def query(self, encoded: list[int], proof: list[int], drawn: list[int], joint: list[int]) -> list[int]:
        circuit, field = self.circuit, self.circuit.field
        seeds, values = proof[: circuit.arity], proof[circuit.arity :]
        polynomial = [*values, field.value_at(field.roots(2 * self.size)[-1], values)]
        results = circuit.results(polynomial[2 : 2 * circuit.calls + 2 : 2], encoded, self.shares)
        if circuit.checks > 1:
            results = [a * b for a, b in zip(results, drawn, strict=False)]
        wires = [seeds, *circuit.wires(encoded, joint, self.shares)]
        wires += [[0] * circuit.arity for _ in range(self.size - len(wires))]
        at = [field.value_at(drawn[-1], wire) for wire in zip(*wires, strict=True)]
        return [sum(results) % field.order, *at, field.value_at(drawn[-1], polynomial)]

    def prepare(
        self, server: int, key: bytes, nonce: bytes, public: bytes, share: bytes
    ) -> tuple[list[int], bytes, bytes]:
        """Return outputs, verifier share, and the seed of the joint randomness as this server finds it."""
        circuit, field = self.circuit, self.circuit.field
        if server:
            (encoded, proof), blind = self.helper(server, share[:32]), share[32:]
        else:
            middle, end = field.size * circuit.inputs, field.size * (circuit.inputs + self.proof * self.proofs)
            encoded, proof, blind = field.read(share[:middle]), field.read(share[middle:end]), share[end:]
        part, seed, joint = b"", b"", []
        if circuit.joint:
            part = self.part(server, blind, nonce, encoded)
            seed = self.seed(6, bytes(32), public[: 32 * server] + part + public[32 * server + 32 :])
            joint = self.joint(seed)
        each = (circuit.checks if circuit.checks > 1 else 0) + 1
        drawn = self.vector(5, key, bytes([self.proofs]) + nonce, each * self.proofs)
        verifier: list[int] = []
        for i in range(self.proofs):
            verifier += self.query(
                encoded,
                proof[i * self.proof : (i + 1) * self.proof],
                drawn[i * each : (i + 1) * each],
                joint[i * circuit.joint : (i + 1) * circuit.joint],
            )
        return circuit.truncate(encoded), field.written(verifier) + part, seed

    def decide(self, verifiers: Sequence[bytes]) -> tuple[bool, bytes]:
        circuit, field = self.circuit, self.circuit.field
        each = circuit.arity + 2
        end = field.size * each * self.proofs
        added = [
            sum(column) % field.order for column in zip(*(field.read(raw[:end]) for raw in verifiers), strict=True)
        ]
        held = all(v[0] == 0 and circuit.gadget(v[1:-1]) == v[-1] for v in batches(added, each))
        joined = b"".join(raw[end:] for raw in verifiers)
        return held, self.seed(6, bytes(32), joined) if circuit.joint else b""

"""Proofs that a shared encoding is one of a circuit's, checked by servers that each hold a share and see nothing else.

The contributor interpolates, for each wire of the gadget, the polynomial through a random value and the wire's values
in every call, and shares the gadget's polynomial of these. Each server evaluates its shares of all of them at a random
point; added up, the gadget of the wires' values must be the gadget polynomial's value, and the checks 0.

Sound: a false gadget polynomial differs from the true one in a polynomial of degree at most 2 (size - 1), so that a
random point outside the prover's control shows it but for 2 (size - 1) / ORDER (Schwartz & Zippel); several checks are
weighed at random, which hides a false one with 1 / ORDER more. Several proofs of the same multiply their odds, which
Field64 needs wherever a liar could try joint randomness offline (draft-irtf-cfrg-vdaf, security considerations).
Zero-knowledge: with the random first values, wires at a point that is none of the roots are uniform whatever the
encoding, and the last value follows from them (Boneh et al. 2019, theorem 4.3). `sound_points` finds the others.
Not proved here: that the Fiat-Shamir step with TurboSHAKE128 keeps both (Davis, Patton, Rosulek & Schoppmann 2023 do,
in the ideal permutation model).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.sharing.circuits import Circuit
from thebes.sharing.field import Elements, add, multiply, negate, roots, subtract, total, weights_at

_BLOCK = 1 << 14  #: elements that are worked on at once, so that they stay in cache


@dataclass(frozen=True, slots=True)
class Proofs:
    """One proof of a circuit for each row. Rows are independent: those of several proofs of one report too."""

    circuit: Circuit

    @property
    def size(self) -> int:
        """The number of roots at which a wire's polynomial is known: a power of two above the calls."""
        return 1 << self.circuit.calls.bit_length()

    @property
    def length(self) -> int:
        """The elements of a proof: first values of the wires, and the gadget's polynomial at all but the last root."""
        return self.circuit.arity + 2 * self.size - 1

    @property
    def query_length(self) -> int:
        """The random elements of a query: weights of the checks, where there are several, and the point."""
        return (self.circuit.checks if self.circuit.checks > 1 else 0) + 1

    @property
    def verifier_length(self) -> int:
        return self.circuit.arity + 2

    def prove(self, encoded: Elements, randomness: Elements, joint: Elements) -> Elements:
        """Return a proof for each row; `randomness` is `arity` uniform elements that serve once."""
        found = np.empty((len(encoded), self.length), dtype=np.uint64)
        between = weights_at(roots(2 * self.size)[1::2], self.size)  # at the roots half way, from those at the roots
        for part in self._blocks(len(encoded)):
            wires = np.zeros((len(encoded[part]), self.size, self.circuit.arity), dtype=np.uint64)
            wires[:, 0] = randomness[part]
            wires[:, 1 : self.circuit.calls + 1] = self.circuit.wires(encoded[part], joint[part], 1)
            polynomial = np.empty((len(wires), 2 * self.size), dtype=np.uint64)
            polynomial[:, 0::2] = self.circuit.gadget(wires)
            for place, weights in enumerate(between):
                polynomial[:, 2 * place + 1] = self.circuit.gadget(total(multiply(wires, weights[:, None]), 1))
            found[part] = np.concatenate([randomness[part], polynomial[:, :-1]], axis=1)
        return found

    def sound_points(self, query: Elements) -> NDArray[np.bool_]:
        """Tell of each query whether its point is none of the roots, where a wire's value would be told as it is."""
        power = query[:, -1]
        for _ in range(self.size.bit_length() - 1):
            power = multiply(power, power)
        return np.asarray(power != 1)

    def query(self, encoded: Elements, proof: Elements, query: Elements, joint: Elements, shares: int) -> Elements:
        """Return a share of the verifier for each row, from shares of its encoding and proof."""
        at = weights_at(query[:, -1], self.size)
        at_twice = weights_at(query[:, -1], 2 * self.size)
        found = np.empty((len(encoded), self.verifier_length), dtype=np.uint64)
        for part in self._blocks(len(encoded)):
            found[part] = self._queried(
                encoded[part], proof[part], query[part], joint[part], shares, at[part], at_twice[part]
            )
        return found

    def _queried(
        self,
        encoded: Elements,
        proof: Elements,
        query: Elements,
        joint: Elements,
        shares: int,
        at: Elements,
        at_twice: Elements,
    ) -> Elements:
        circuit = self.circuit
        polynomial = self._completed(proof[:, circuit.arity :])
        results = circuit.results(polynomial[:, 2 : 2 * circuit.calls + 2 : 2], encoded, shares)
        if circuit.checks > 1:
            results = multiply(results, query[:, :-1])
        wires = circuit.wires(encoded, joint, shares)
        values = total(multiply(wires, at[:, 1 : circuit.calls + 1, None]), 1)
        values = add(values, multiply(proof[:, : circuit.arity], at[:, :1]))
        gadget = total(multiply(polynomial, at_twice), 1)
        return np.concatenate([total(results, 1)[:, None], values, gadget[:, None]], axis=1)

    def _completed(self, values: Elements) -> Elements:
        """Return a polynomial's values at all 2 size roots: of degree below 2 size - 1, its highest coefficient is 0,
        so that the sum of value times root is."""
        known = roots(2 * self.size)
        rest = total(multiply(values, known[:-1]), 1)
        return np.concatenate([values, negate(multiply(rest, known[1]))[:, None]], axis=1)

    def decide(self, verifier: Elements) -> NDArray[np.bool_]:
        """Tell of each row, the sum of all shares, whether its proof holds."""
        expected = self.circuit.gadget(verifier[:, 1:-1])
        return np.asarray((verifier[:, 0] == 0) & (subtract(expected, verifier[:, -1]) == 0))

    def _blocks(self, count: int) -> list[slice]:
        rows = max(1, _BLOCK // (self.size * self.circuit.arity))
        return [slice(start, start + rows) for start in range(0, count, rows)]

"""Circuits: arithmetic that is 0 exactly for the encodings of what an honest person may send.

Each is affine in the encoding but for calls of one small gadget, so that a proof is about the gadget's values alone
(Boneh, Boyle, Corrigan-Gibbs, Gilboa & Ishai 2019, section 4). Constants are divided by the number of shares, so that
shares of an encoding give shares of every wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.sharing.field import ORDER, Elements, add, element, multiply, powers, subtract, total

Integers = NDArray[np.int64]
LARGEST = 2**62  #: that a number of a measurement may be


class Circuit(Protocol):
    """Everything that a proof needs to know. Shapes begin with one row for each report."""

    @property
    def inputs(self) -> int:
        """The elements of an encoding."""
        ...

    @property
    def outputs(self) -> int:
        """The numbers that are added up."""
        ...

    @property
    def calls(self) -> int:
        """The calls of the gadget."""
        ...

    @property
    def arity(self) -> int:
        """The wires into the gadget, whose degree is 2 in every circuit here."""
        ...

    @property
    def joint(self) -> int:
        """The joint random elements of one proof; 0 where a liar could gain nothing by looking for good ones."""
        ...

    @property
    def checks(self) -> int:
        """The results that must all be 0."""
        ...

    def encode(self, measurements: Integers) -> Elements:
        """Encode rows of numbers; a number out of range is a Mistake that names no value."""
        ...

    def truncate(self, encoded: Elements) -> Elements:
        """Return the numbers that (shares of) encodings stand for."""
        ...

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        """Return the inputs of every call: [reports, calls, arity]."""
        ...

    def gadget(self, inputs: Elements) -> Elements:
        """Return the gadget's values; inputs lie in the last axis."""
        ...

    def results(self, called: Elements, encoded: Elements, shares: int) -> Elements:
        """Return the checks' results from those of the calls: [reports, checks]."""
        ...


@dataclass(frozen=True, slots=True)
class CountCircuit:
    """One bit: b * b - b = 0. The draft's Prio3Count."""

    inputs: int = 1
    outputs: int = 1
    calls: int = 1
    arity: int = 2
    joint: int = 0
    checks: int = 1

    def encode(self, measurements: Integers) -> Elements:
        return _within(measurements, [1])

    def truncate(self, encoded: Elements) -> Elements:
        return encoded

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        return np.repeat(encoded[:, :, None], 2, axis=2)

    def gadget(self, inputs: Elements) -> Elements:
        return multiply(inputs[..., 0], inputs[..., 1])

    def results(self, called: Elements, encoded: Elements, shares: int) -> Elements:
        return subtract(called, encoded)


class Bits:
    """Numbers 0 .. largest as bits. The last bit of each weighs what is left, so that no bits stand for more.

    The draft's encoding of bounded numbers: weights 1, 2, 4 .. and largest - (2^(bits - 1) - 1).
    """

    def __init__(self, largest: Sequence[int]) -> None:
        for each in largest:
            if isinstance(each, bool) or not isinstance(each, int) or not 1 <= each <= LARGEST:
                raise Mistake("largest", "must be whole numbers between 1 and 2^62")
        self.largest = tuple(largest)
        self.outputs = len(self.largest)
        self._widths = [each.bit_length() for each in self.largest]
        self.inputs = sum(self._widths)
        self._starts = np.cumsum([0, *self._widths[:-1]])
        places = [[2**bit for bit in range(width - 1)] for width in self._widths]
        left = [each - (2 ** (width - 1) - 1) for each, width in zip(self.largest, self._widths, strict=True)]
        self._weights = np.array([w for p, last in zip(places, left, strict=True) for w in [*p, last]], dtype=np.uint64)

    def encode(self, measurements: Integers) -> Elements:
        numbers = _within(measurements, self.largest)
        found = np.zeros((len(numbers), self.inputs), dtype=np.uint64)
        for column, (start, width) in enumerate(zip(self._starts.tolist(), self._widths, strict=True)):
            last, top = self._weights[start + width - 1], np.uint64(2 ** (width - 1) - 1)
            high = numbers[:, column] > top
            low = numbers[:, column] - high * last
            for bit in range(width - 1):
                found[:, start + bit] = low >> np.uint64(bit) & np.uint64(1)
            found[:, start + width - 1] = high
        return found

    def truncate(self, encoded: Elements) -> Elements:
        if self.inputs == self.outputs:  # every number is its one bit
            return encoded
        weighed = multiply(encoded, self._weights)
        ends = [*self._starts[1:].tolist(), self.inputs]
        parts = [total(weighed[:, a:b], 1) for a, b in zip(self._starts.tolist(), ends, strict=True)]
        return np.stack(parts, axis=1)


class SumCircuit(Bits):
    """One number, each bit by a call of its own: b^2 - b = 0. The draft's Prio3Sum, without joint randomness."""

    arity = 1
    joint = 0

    def __init__(self, largest: int) -> None:
        super().__init__([largest])
        self.calls = self.checks = self.inputs

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        return encoded[:, :, None]

    def gadget(self, inputs: Elements) -> Elements:
        return subtract(multiply(inputs[..., 0], inputs[..., 0]), inputs[..., 0])

    def results(self, called: Elements, encoded: Elements, shares: int) -> Elements:
        return called


class VectorCircuit(Bits):
    """Several numbers, whose bits are checked in chunks: a call adds up r^j b (b - 1) over a chunk, r its joint
    randomness, so that other values than bits stay hidden with probability at most chunk / ORDER.

    With numbers of one size the draft's SumVec. `one_hot`: all are bits, of which exactly one is 1 (a second check);
    the draft's Histogram.
    """

    def __init__(self, largest: Sequence[int], chunk: int | None = None, *, one_hot: bool = False) -> None:
        super().__init__(largest)
        if one_hot and set(self.largest) != {1}:
            raise Mistake("largest", "must be 1 for every cell of a histogram")
        self.chunk = max(1, round(self.inputs**0.5)) if chunk is None else chunk
        if not 1 <= self.chunk <= self.inputs:
            raise Mistake("chunk", "must lie between 1 and the number of bits")
        self.one_hot = one_hot
        self.calls = self.joint = -(-self.inputs // self.chunk)
        self.arity = 2 * self.chunk
        self.checks = 2 if one_hot else 1

    def wires(self, encoded: Elements, joint: Elements, shares: int) -> Elements:
        padded = np.zeros((len(encoded), self.calls * self.chunk), dtype=np.uint64)
        padded[:, : self.inputs] = encoded
        bits = padded.reshape(-1, self.calls, self.chunk)
        found = np.empty((*bits.shape, 2), dtype=np.uint64)
        found[..., 0] = multiply(powers(joint, self.chunk), bits)
        found[..., 1] = subtract(bits, element(pow(shares, -1, ORDER)))
        return found.reshape(-1, self.calls, self.arity)

    def gadget(self, inputs: Elements) -> Elements:
        return total(multiply(inputs[..., 0::2], inputs[..., 1::2]), inputs.ndim - 1)

    def results(self, called: Elements, encoded: Elements, shares: int) -> Elements:
        found = total(called, 1)[:, None]
        if not self.one_hot:
            return found
        cells = add(total(encoded, 1), element(-pow(shares, -1, ORDER)))
        return np.concatenate([found, cells[:, None]], axis=1)


def _within(measurements: Integers, largest: Sequence[int]) -> Elements:
    numbers = np.asarray(measurements)
    if numbers.dtype != np.int64 or numbers.ndim != 2 or numbers.shape[1] != len(largest):
        raise Mistake("measurements", f"must be rows of {len(largest)} whole numbers")
    if (numbers < 0).any() or (numbers > np.array(largest, dtype=np.int64)).any():
        raise Mistake("measurements", "must lie between 0 and the largest that is allowed")
    return numbers.astype(np.uint64)

"""Gradients in shares: what a person's machine encodes, what its proof shows, and the noise of each of two servers.

Promise, of (epsilon, delta) under replace-one with a public number of people, while one of the two servers keeps its
word. A machine shortens its gradient to length `clip` and writes it as whole numbers q of which the length is at most
2^BITS, exactly (`VectorSum`: rounding is toward 0). What is added up is e = q + 2^BITS in every coordinate, so that e
is never negative; the shift times the public number of people comes off after opening. Replacing one honest person
moves the sum by q - q', whose length is at most 2 * 2^BITS by the triangle inequality (L1: at most 2 * 2^BITS
sqrt(weights), by Cauchy and Schwarz). One server's noise alone suffices for that: discrete Gaussian noise of 2 *
2^BITS times the analytic ratio (Balle & Wang 2018; what the grid costs is proved at `gaussian.grid_slack`), or
Laplace noise in L1 where there is no delta or it is smaller. The other server's independent noise, whatever other
people send, and the step down the gradient do not depend on the person: post-processing.

The proof shows of each number that it lies between 0 and 2 * 2^BITS (`VectorCircuit`), not that the vector is short:
that takes a proof about the sum of squares, which is not here (Rothblum, Omri, Chen & Talwar 2024 have one). So the
vector of a liar may be sqrt(weights) times as long as an honest one, which the certificate says (`influence`). It
costs nobody else's privacy: it is the same in both worlds. It costs the liar's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from thebes.privacy.figures import figure
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive, Integers, LeastNoise
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import change_of
from thebes.privacy.transformations.sums import VectorSum
from thebes.sharing import Prio3, context_of
from thebes.tasks import split_reports
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.contributions import Layout
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.gradient.network import network

#: A gradient loses up to clip / 2^14 in each number, always toward 0; every bit more would make reports 6 % longer
BITS = 14
_SHIFT = 1 << BITS


@dataclass(frozen=True, slots=True)
class SplitGradient:
    """Everything about one document that both halves need."""

    document: GradientDocument
    transformation: VectorSum
    noise: Additive

    @property
    def noises(self) -> tuple[CoordinateNoise, ...]:
        return (CoordinateNoise(self.noise, self.transformation.coordinates),)

    def make(self, context: bytes) -> Prio3:
        return Prio3.vector([2 * _SHIFT] * self.transformation.coordinates, context)

    def encode(self, gradients: Floats) -> Integers:
        """Shorten and encode gradients: one row each."""
        return self.transformation.integers(gradients) + _SHIFT

    def summed(self, opened: Floats, people: int) -> Floats:
        """Return the noised sum of the gradients of so many people."""
        return (opened - people * float(_SHIFT)) * self.transformation.step

    @property
    def influence(self) -> str:
        """Say how far one person who lies can move the answer, by what their proof shows."""
        longest = figure(math.sqrt(self.transformation.coordinates))
        return (
            "each number by no more than one honest person, and all together by up to "
            f"{longest} times as much: that a gradient is short is not proved"
        )


def statistic(document: GradientDocument, randomness: Randomness) -> SplitGradient:
    """Return how a document is answered."""
    made = network(document)
    transformation = VectorSum(document.clip, 2, made.parameters, BITS)
    change = change_of(Adjacency.REPLACE_ONE, public_size=True)
    noise = LeastNoise(made.epsilon, made.delta).noise(transformation.sensitivity(change))
    return SplitGradient(document, transformation, noise)


def layout_of(document: GradientDocument, part: str) -> Layout:
    """Return what a contribution looks like: a noised gradient, or one report in shares."""
    made = network(document)
    if document.server != "split":
        return made.layout()
    context = context_of(bytes.fromhex(document.digest), part)
    return split_reports.layout_of(Prio3.vector([2 * _SHIFT] * made.parameters, context))


def bytes_of(document: GradientDocument) -> int:
    """Return how long a report is as it travels."""
    return layout_of(document, "")[split_reports.REPORT].length

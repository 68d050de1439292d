"""The mechanism with the least expected error for a public problem: what `auto` means.

The choice looks at declared numbers only, so an owner and a server choose alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.additive import LocalGaussian, LocalLaplace
from thebes.privacy.mechanisms.local.bounded import Hybrid, Piecewise, TwoPoint
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.hadamard import HadamardResponse
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.shape import contributors_of
from thebes.privacy.mechanisms.local.subset import SubsetSelection
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding

#: Pure mechanisms by name; among equals the first, whose reports are the smallest, is chosen.
CATEGORICAL: Mapping[str, Callable[[int, exact.Number], CategoryMechanism]] = {
    RandomizedResponse.name: RandomizedResponse,
    HadamardResponse.name: HadamardResponse,
    SubsetSelection.name: SubsetSelection,
    AsymmetricUnaryEncoding.name: AsymmetricUnaryEncoding,
    SymmetricUnaryEncoding.name: SymmetricUnaryEncoding,
}
NUMERIC: Mapping[str, Callable[[float, float, exact.Number], NumberMechanism]] = {
    TwoPoint.name: TwoPoint,
    Piecewise.name: Piecewise,
    Hybrid.name: Hybrid,
    LocalLaplace.name: LocalLaplace,
}


def choose_categorical(
    size: int,
    epsilon: exact.Number,
    contributors: int,
    *,
    delta: exact.Number = 0,
    among: Iterable[str] = tuple(CATEGORICAL),
) -> CategoryMechanism:
    """The mechanism for one of `size` categories whose frequencies come out with the least expected squared error.

    A delta that buys nothing is not spent: the mechanism's own `delta` says what is.
    """
    names = _known(among, CATEGORICAL)
    choices: list[CategoryMechanism] = [CATEGORICAL[name](size, epsilon) for name in names]
    if exact.delta(delta) and RandomizedResponse.name in names:
        choices.append(RandomizedResponse(size, epsilon, delta))
    return min(choices, key=lambda mechanism: mechanism.expected_error(contributors_of(contributors)))


def choose_number(
    low: float,
    high: float,
    epsilon: exact.Number,
    contributors: int,
    *,
    delta: exact.Number = 0,
    among: Iterable[str] = (*NUMERIC, LocalGaussian.name),
) -> NumberMechanism:
    """The mechanism for one number of [low, high] whose mean comes out with the least worst-case squared error."""
    names = _known(among, {*NUMERIC, LocalGaussian.name})
    choices: list[NumberMechanism] = [NUMERIC[name](low, high, epsilon) for name in names if name in NUMERIC]
    if exact.delta(delta) and LocalGaussian.name in names:
        choices.append(LocalGaussian(low, high, epsilon, delta))
    if not choices:
        raise Mistake("delta", "must be greater than 0 for Gaussian noise")
    return min(choices, key=lambda mechanism: mechanism.expected_error(contributors_of(contributors)))


def _known(among: Iterable[str], known: Iterable[str]) -> list[str]:
    names, allowed = list(among), set(known)
    if not names or not allowed.issuperset(names):
        raise Mistake("among", f"must name at least one of {', '.join(sorted(allowed))}, and nothing else")
    return names

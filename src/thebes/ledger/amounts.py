"""Budget as people read it (exact decimals) and as ledgers count it (whole steps).

What must stay true: requests are rounded up to whole steps, capacities down.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Any

from thebes.privacy import exact
from thebes.privacy.figures import figure

_WIDE = Context(prec=120, rounding=ROUND_FLOOR)

#: What something costs or holds, in whole steps, by the place where a filter counts it ("epsilon", "rho", an order).
Steps = dict[str, int]


class Amount(Decimal):
    """An exact decimal that also meets floats in arithmetic, each read as written: 0.1 is one tenth."""

    def __add__(self, other: Any) -> Amount:
        return Amount(Decimal.__add__(self, _read(other)))

    def __sub__(self, other: Any) -> Amount:
        return Amount(Decimal.__sub__(self, _read(other)))

    def __rsub__(self, other: Any) -> Amount:
        return Amount(Decimal.__rsub__(self, _read(other)))

    def __mul__(self, other: Any) -> Amount:
        return Amount(Decimal.__mul__(self, _read(other)))

    def __truediv__(self, other: Any) -> Amount:
        return Amount(Decimal.__truediv__(self, _read(other)))

    __radd__ = __add__
    __rmul__ = __mul__


def _read(value: Any) -> Any:
    return Decimal(str(value)) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Budget:
    """An epsilon and a delta, exact."""

    epsilon: Amount
    delta: Amount

    @staticmethod
    @lru_cache(maxsize=4096)
    def of_steps(epsilon: int, delta: int) -> Budget:
        """From whole steps: epsilon in units of 1e-12, delta in units of 1e-18."""
        return Budget(Amount(exact.of_steps(epsilon)), Amount(exact.of_steps(delta, exact.DELTA_STEP)))

    def __str__(self) -> str:
        # A ledger counts epsilon in steps of 1e-12: none of them is rounded away here.
        return f"epsilon {figure(self.epsilon, 12)} and delta {figure(self.delta, 12)}"

    def as_json(self) -> dict[str, float]:
        return {"epsilon": float(self.epsilon), "delta": float(self.delta)}


NOTHING = Budget(Amount(0), Amount(0))


def plain(value: Decimal) -> str:
    """A decimal as people write it: no trailing zeros; an exponent only where the number is tiny."""
    number = value.normalize(_WIDE)
    if not number:
        return "0"
    return f"{number:f}" if abs(number) >= Decimal("1e-4") else f"{number:e}"


def epsilon_steps(value: Decimal) -> int:
    """A requested epsilon (or rho, or Renyi loss) in steps, rounded up."""
    return exact.steps_up(value, exact.EPSILON_STEP)


def delta_steps(value: Decimal) -> int:
    """A requested delta in steps, rounded up."""
    return exact.steps_up(value, exact.DELTA_STEP)

"""One cell: a statistic, a law, so many rows, an epsilon; judged by what its bars held and how wide they are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any
from zlib import crc32

import numpy as np

from evidence.bars.asked import Barred
from evidence.bars.rows import rows_of
from thebes.privacy.randomness import seeded_for_simulation

LEVEL = 0.95
EPSILONS = (0.1, 1.0, 8.0)
SURE = 1e-6  #: of all cells together: as often a good bar is said to be bad
_STEP = 1.0  #: of whole answers (counts)

#: half widths of medians' bars as they were before the ladder, by two further quantiles; at most .6 of that is accepted
BEFORE = {
    ("normal", 400, 1.0): 9.7, ("normal", 2_000, 1.0): 1.84, ("normal", 20_000, 1.0): 0.18,
    ("normal", 2_000, 0.1): 35.0, ("normal", 20_000, 0.1): 1.83, ("lognormal", 400, 1.0): 13.7,
    ("lognormal", 2_000, 1.0): 2.43, ("lognormal", 20_000, 1.0): 0.214, ("lognormal", 400, 8.0): 1.6,
    ("lognormal", 2_000, 8.0): 0.31,
}  # fmt: skip
#: of the range taken outward, means; what the note measured and a tenth more
OUTWARD = {
    ("lognormal", 1000, 1.0): 8.8, ("lognormal", 10_000, 1.0): 2.42, ("uniform", 1000, 1.0): 3.74,
    ("uniform", 10_000, 1.0): 0.374, ("exponential", 1000, 1.0): 0.198, ("exponential", 10_000, 1.0): 0.0264,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BarCell:
    """A measured cell. `held` counts draws whose bar held all exact answers, or that had none."""

    statistic: str
    way: str
    law: str
    n: int
    epsilon: float
    draws: int
    shown: int  #: draws with a bar
    held: int
    half: float | None  #: width of the middle bar, halved
    errors: float | None  #: 95 % of them lie within
    floor: float | None  #: the widest half width that is accepted

    @property
    def coverage_upto(self) -> float:
        """The Clopper-Pearson end of how often it holds."""
        from scipy.stats import beta

        return 1.0 if self.held == self.draws else float(beta.isf(0.025, self.held + 1, self.draws - self.held))

    def too_rarely(self, cells: int) -> bool:
        """Return whether luck does not explain how rarely it held, of so many cells that are judged together."""
        from scipy.stats import binom

        return bool(binom.cdf(self.held, self.draws, LEVEL) < SURE / cells)

    @property
    def too_wide(self) -> bool:
        return self.half is not None and self.floor is not None and self.half > self.floor

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measured(barred: Barred, law: str, n: int, epsilon: float, draws: int) -> BarCell:
    """Draw a cell so often, with seeds that are always the same."""
    ask, (low, high) = barred.asked(law, n, epsilon), barred.exact(rows_of(law, n))
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    held, halves, errors = 0, [], []
    first = crc32(f"{barred.name} {law} {n} {epsilon}".encode())
    for draw in range(draws):
        told = ask(seeded_for_simulation(first + draw))
        if np.isfinite(told.value):
            errors.append(max(0.0, low - told.value, told.value - high))
        if told.bar is None:
            held += 1
            continue
        held += float(told.bar.low) <= low + slack and high - slack <= float(told.bar.high)
        halves.append((float(told.bar.high) - float(told.bar.low)) / 2)
    half = float(np.median(halves)) if halves else None
    within, upto = _within(errors)
    floor = _floor(barred, law, n, epsilon, upto)
    return BarCell(barred.statistic, barred.way, law, n, epsilon, draws, len(halves), held, half, within, floor)


def _within(errors: list[float]) -> tuple[float | None, float | None]:
    """Within what 95 % of errors lie, and what that may be by luck: once in a thousand times it is more."""
    from scipy.stats import binom

    if not errors:
        return None, None
    ordered, last = np.sort(errors), int(binom.isf(1e-3, len(errors), LEVEL))
    within = float(np.quantile(ordered, LEVEL, method="inverted_cdf"))
    return within, float(ordered[last]) if last < len(errors) else None


def _floor(barred: Barred, law: str, n: int, epsilon: float, within: float | None) -> float | None:
    """The widest that is accepted: what the note asks of it, or else so many times the errors."""
    cell = (law, n, epsilon)
    if barred.name == "median, people" and cell in BEFORE:
        return 0.6 * BEFORE[cell]
    if barred.name == "mean, people, no bounds" and cell in OUTWARD:
        return OUTWARD[cell]
    whole = barred.statistic in ("count", "histogram, one bin")
    return None if within is None or barred.tight >= 40 else barred.tight * within + (_STEP if whole else 0.0)

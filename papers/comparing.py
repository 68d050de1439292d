"""A comparison of outcomes with earlier ones: whether they fell behind by more than seeds differ.

Two means of independent seeds are told apart by a t test. A few seeds say little about their spread, so the variances
of a panel's rows are taken to be draws of one family (scaled inverse chi squared), whose place and width are estimated
from the panel, and each row's variance is drawn towards it (Smyth 2004, sections 3 to 6). The narrower the family, the
more a row learns from its neighbours; a wide one teaches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from papers.experiment import Better, Experiment
from papers.outcome import Outcome, Row

ODDS = 1e-4  #: that anything is called a fall though nothing but the draws changed, over all rows of one check
FLOOR = 0.005  #: of a value's size: less is never a fall, whatever the seeds say
NEARLY = 0.02  #: of a value's size: what builds of numpy may make of the same draws
_FEW = 4  #: rows with a spread that make a family


@dataclass(frozen=True, slots=True, kw_only=True)
class Fall:
    """A row that is worse than it was by more than `allowed`; `now` is None where it is there no longer."""

    name: str
    panel: str
    series: str
    at: float | str | None
    better: Better
    before: float
    now: float | None
    allowed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of one outcome. `rows` were compared, `blind` of them by single seeds, for which no odds can be
    stated; the median one of them would have been called a fall from a share of `notices` of its value on."""

    name: str
    rows: int = 0
    blind: int = 0
    notices: float = 0.0
    fell: tuple[Fall, ...] = ()
    why_not: str = ""  #: it could not be compared


@dataclass(frozen=True, slots=True)
class _Pair:
    """One row, then and now."""

    before: Row
    now: Row
    better: Better
    scale: float
    seeds: tuple[int, int]

    @property
    def freedom(self) -> int:
        return sum(seeds - 1 for seeds in self.seeds)

    @property
    def variance(self) -> float:
        """Of one seed, from both sides."""
        sides = zip((self.before, self.now), self.seeds, strict=True)
        return sum((seeds - 1) * (row.spread or 0.0) ** 2 for row, seeds in sides) / max(1, self.freedom)

    @property
    def worse(self) -> float:
        more = self.now.ours - self.before.ours
        return {"more": -more, "less": more, "same": abs(more)}[self.better]


def compare(
    pairs: Sequence[tuple[Experiment, Outcome, Outcome]], *, odds: float = ODDS, same_draws: bool = False
) -> tuple[Comparison, ...]:
    """Each (experiment, earlier outcome, new outcome). Times are nobody's measure and so never compared.

    `same_draws`: the code draws what it drew then, so that equal seeds must give nearly equal numbers.
    """
    gathered = [_gathered(*pair) for pair in pairs]
    together = sum(len(found) for found, _ in gathered)
    each = odds / max(1, together)
    return tuple(
        _judged(experiment, found, gone, each, same_draws and before.seeds == now.seeds)
        if found or gone
        else Comparison(name=experiment.name, why_not=reason(before, now) or "times only, or nothing that is better")
        for (experiment, before, now), (found, gone) in zip(pairs, gathered, strict=True)
    )


def reason(before: Outcome, now: Outcome) -> str:
    """Say why two outcomes cannot be compared; nothing where they can."""
    if before.quick != now.quick:
        return "one of them is a quick run"
    if before.made_up or now.made_up:
        return "made-up data stand in for the real ones"
    if before.data != now.data:
        return f"other data: {before.data} then, {now.data} now"
    return ""


def _gathered(experiment: Experiment, before: Outcome, now: Outcome) -> tuple[list[_Pair], list[Row]]:
    """The rows that both have, and those that are gone."""
    if reason(before, now):
        return [], []
    present = {_key(row): row for row in now.rows}
    found, gone = [], []
    for row in before.rows:
        better = experiment.direction(row)
        if better is None:
            continue
        if _key(row) not in present:
            gone.append(row)
            continue
        typical = float(np.median([abs(other.ours) for other in before.rows if other.panel == row.panel]))
        new = present[_key(row)]
        seeds = tuple(1 if one.spread is None else len(outcome.seeds) for one, outcome in ((row, before), (new, now)))
        found.append(_Pair(row, new, better, max(abs(row.ours), typical), (seeds[0], seeds[1])))
    return found, gone


def _judged(experiment: Experiment, found: Sequence[_Pair], gone: Sequence[Row], odds: float, same: bool) -> Comparison:
    fell = [
        Fall(name=experiment.name, panel=row.panel, series=row.series, at=row.at, before=row.ours, now=None,
             better=experiment.direction(row) or "same", allowed=0.0)
        for row in gone
    ]  # fmt: skip
    widths = []
    for pair, noise in _noises(found, odds):
        allowed = max(FLOOR * pair.scale, experiment.blind * pair.scale if noise is None else noise)
        allowed = NEARLY * pair.scale if same else allowed
        widths.append(allowed / pair.scale if pair.scale else 0.0)
        if pair.worse > allowed:
            row = pair.before
            fell.append(Fall(name=experiment.name, panel=row.panel, series=row.series, at=row.at, before=row.ours,
                             now=pair.now.ours, better=pair.better, allowed=allowed))  # fmt: skip
    return Comparison(
        name=experiment.name,
        rows=len(found) + len(gone),
        blind=0 if same else sum(not pair.freedom for pair in found),
        notices=float(np.median(widths)) if widths else 0.0,
        fell=tuple(fell),
    )


def _noises(found: Sequence[_Pair], odds: float) -> Iterator[tuple[_Pair, float | None]]:
    """Each pair with what the draws alone exceed with no more than `odds`; None where there is one seed only."""
    from scipy.stats import t

    families: dict[str, tuple[float, float]] = {}
    for panel in {pair.before.panel for pair in found}:
        spread = [pair for pair in found if pair.before.panel == panel and pair.variance > 0]
        families[panel] = family([pair.variance for pair in spread], [pair.freedom for pair in spread])
    for pair in found:
        if not pair.freedom:
            yield pair, None
            continue
        more, usual = families[pair.before.panel]
        freedom = more + pair.freedom
        variance = (more * usual + pair.freedom * pair.variance) / freedom
        sides = odds / 2 if pair.better == "same" else odds
        apart = math.sqrt(variance * sum(1 / seeds for seeds in pair.seeds))
        yield pair, float(t.isf(sides, freedom)) * apart


def family(variances: Sequence[float], freedoms: Sequence[int]) -> tuple[float, float]:
    """(degrees of freedom, variance) that a row learns from its neighbours: none from too few. How wide a family is, is
    itself an estimate: it is taken a standard error wider, and teaches no more degrees than the neighbours have."""
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    if len(variances) < _FEW:
        return 0.0, 0.0
    half = np.asarray(freedoms, dtype=np.float64) / 2
    logs = np.log(variances) - digamma(half) + np.log(half)
    wide = float(logs.var(ddof=1) * (1 + math.sqrt(2 / (len(logs) - 1))) - polygamma(1, half).mean())
    most = float(sum(freedoms))
    if wide <= polygamma(1, most / 2):
        more = most
    else:
        more = 2 * float(brentq(lambda x: polygamma(1, x) - wide, 1e-3, most / 2)) if wide < 1e5 else 0.0
    usual = math.exp(float(logs.mean() + digamma(more / 2)) - math.log(more / 2)) if more else 0.0
    return more, usual


def _key(row: Row) -> tuple[str, str, float | str | None]:
    return row.panel, row.series, row.at

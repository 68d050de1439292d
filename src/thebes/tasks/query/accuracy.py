"""The price of an accuracy: the least epsilon with which all answers together lie within `alpha` of the exact ones, but
for the odds `beta`; and how that is split over sites.

Everything here follows from the document, the schemas and what sites said of answers that they have already. The odds
of missing of several answers are added up (union bound); the noises of several sites are independent, and are added up
as what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property
from typing import Any

from thebes.curator.cache.requirement import Wanted
from thebes.curator.questions.noise import loosest, noise_for, noise_made
from thebes.curator.questions.plans import Plan, QuestionPlan
from thebes.data.schema import Schema
from thebes.ledger.filters import BASIC, CONCENTRATED, charging_events
from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.figures import figure
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.summed_noise import together
from thebes.tasks.document import LEAST_EPSILON, InvalidDocument
from thebes.tasks.query.kind import KIND, LEAST_ODDS, Accuracy, QueryDocument

MOST_EPSILON = 1e6  #: that a document may say
_DIGITS = 4  #: of a price
_MOST_TRIED = 16  #: answers that sites have already; of more, either all are used or none

#: what each site said: `made`, (epsilon, delta) of an answer it has already; `synopsis`, what it costs at most to
#: answer from one, within a width of its own; `filter`, how its budget counts
Quotes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Split:
    """`epsilon` is the most that a site pays; `payloads` is what sites are told besides the document; `free` are those
    whose answers are expected to cost nothing."""

    epsilon: float
    payloads: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    free: tuple[str, ...] = ()


def priced(document: QueryDocument, schemas: Mapping[str, Schema], quotes: Quotes | None = None) -> QueryDocument:
    """The document with its price as its epsilon; one without an accuracy stays as it is. `InvalidDocument` where that
    is more than the document allows."""
    if document.accuracy is None:
        return document
    epsilon = split(document, schemas, quotes or {}).epsilon
    allowed = {"max_epsilon": document.max_epsilon or math.inf, "epsilon": document.epsilon or math.inf}
    for name, most in allowed.items():
        if epsilon > most:
            within = f"within {figure(document.accuracy.alpha)} costs epsilon {figure(epsilon)} at a site"
            raise InvalidDocument([(name, f"is too little: {within}; allow that, or ask for less accuracy")])
    return KIND.check({**document.as_json(), "epsilon": epsilon})


def split(document: QueryDocument, schemas: Mapping[str, Schema], quotes: Quotes) -> Split:
    """Split the accuracy over these sites: the same for the same document, schemas and quotes, before and after its
    price was filled in."""
    if document.accuracy is None or not schemas:
        return Split(document.epsilon)
    for smooth in (True, False) if _in_rho(document, schemas, quotes) else (False,):
        try:
            found = _split(document, document.accuracy, schemas, quotes, smooth)
        except InvalidDocument:
            if not smooth:
                raise
            continue
        if not smooth or found.epsilon <= min(document.max_epsilon or math.inf, document.epsilon or math.inf):
            break
    return found


def _in_rho(document: QueryDocument, schemas: Mapping[str, Schema], quotes: Quotes) -> bool:
    """Return whether Gaussian noise is far cheaper at every site, though its epsilon, taken alone, is larger."""
    counted = all(quotes.get(site, {}).get("filter") in charging_events() for site in schemas)
    return counted and document.noise == "site" and exact.delta(document.delta) >= exact.DELTA_STEP


def _split(
    document: QueryDocument, accuracy: Accuracy, schemas: Mapping[str, Schema], quotes: Quotes, smooth: bool
) -> Split:
    schema = next(iter(schemas.values()))
    plan = document.model_copy(update={"epsilon": 0.0}).statistic_plan(schema)
    asked = _Splitting(document, accuracy, plan, schemas, quotes, smooth)
    found = asked.best()
    # A sum is added up in fewer steps where epsilon is so small that its noise could not be drawn otherwise.
    coarser = document.model_copy(update={"epsilon": found.epsilon}).statistic_plan(schema)
    if coarser.step != plan.step:
        found = replace(asked, plan=coarser).best()
    return found


def expected(document: QueryDocument, schemas: Mapping[str, Schema], quotes: Quotes) -> dict[str, tuple[float, str]]:
    """Tell what each site is expected to pay, and where its answer would come from."""
    found = split(document, schemas, quotes)
    told = {}
    for site in schemas:
        epsilon = found.payloads.get(site, {}).get("epsilon", found.epsilon)
        own = "width" in found.payloads.get(site, {}) and "synopsis" in quotes.get(site, {})
        told[site] = (0.0, "cache") if site in found.free else (epsilon, "synopsis" if own else "mechanism")
    return told


def alone(document: QueryDocument, schemas: Mapping[str, Schema]) -> dict[str, float]:
    """Return what each of these sites would be told if it answered within a width of its own; nothing where no
    synopsis can be paid for: it costs more at most than noise alone, so there must be a `max_epsilon` that leaves
    room for it."""
    if document.accuracy is None or document.max_epsilon is None or document.exact or not schemas:
        return {}
    plan = document.model_copy(update={"epsilon": 0.0}).statistic_plan(next(iter(schemas.values())))
    return _Splitting(document, document.accuracy, plan, schemas, {}).told


def reached(plan: QuestionPlan, noises: Sequence[Additive], *, off: float, missed: float, beta: float) -> float | None:
    """Within how much of the exact ones all answers lie together, but for the odds `beta`, in the answer's own measure.
    `off` is what bounds say, in steps of the totals, `missed` the odds that one of them is exceeded: None where these
    leave nothing for the noise."""
    if not noises:
        return off * plan.step if missed <= beta else None
    each = (beta - missed) / plan.size
    return (off + together(noises).width(1 - each)) * plan.step if each >= LEAST_ODDS else None


@dataclass(frozen=True)
class _Splitting:
    """Sites with a synopsis, and one that is asked alone, get an equal part of the width and of the odds for
    themselves; the noises of the others share the rest. Of these, answers that are there already are used as they are,
    the best ones first, as many as make all sites together pay least; what that leaves the others pay, each the same
    epsilon."""

    document: QueryDocument
    accuracy: Accuracy
    plan: Plan
    schemas: Mapping[str, Schema]
    quotes: Quotes
    smooth: bool = False  #: whether noise is Gaussian throughout

    @cached_property
    def within(self) -> float:
        """In steps of the totals."""
        return self.accuracy.alpha / self.plan.step

    @property
    def most(self) -> float:
        """That one site may pay."""
        return min(self.document.max_epsilon or math.inf, self.document.epsilon or math.inf)

    def best(self) -> Split:
        if self.document.noise == "coordinator":
            schema = loosest(self.schemas.values())
            return Split(self._least(lambda epsilon: [self._fresh(schema, epsilon)], self.within, self.accuracy.beta))
        sites, told = sorted(self.schemas), self.told
        alone = [site for site in sites if self._through(site) is not None] if len(sites) > 1 else sites
        rest = [site for site in sites if site not in alone]
        part = len(rest) / len(sites)
        shared = self._shared(rest, self.within * part, self.accuracy.beta * part) if rest else Split(0.0)
        prices = [max(self._alone(self.schemas[site], **told), self._through(site) or 0.0) for site in alone]
        epsilon = max([shared.epsilon, *prices])
        paid = {site: shared.payloads.get(site, {}).get("epsilon", shared.epsilon) for site in rest}
        kind = {"smooth": 1.0} if self.smooth else {}
        payloads = {site: {"epsilon": own, **kind} for site, own in paid.items() if kind or own < epsilon}
        free = [site for site in alone if self._through(site) == 0 or self._enough(self._made(site), **told)]
        return Split(epsilon, {**payloads, **dict.fromkeys(alone, told)}, (*shared.free, *free))

    @property
    def told(self) -> dict[str, float]:
        """To a site that answers within a width of its own."""
        return {"width": self.within / len(self.schemas), "beta": self.accuracy.beta / len(self.schemas)}

    def _through(self, site: str) -> float | None:
        """Return what an answer from a site's synopsis costs at most; None where it has none, or that is too much, or
        it has an answer with noise."""
        told = self.quotes.get(site, {})
        if "made" in told or not isinstance(told.get("synopsis"), (list, tuple)):
            return None
        epsilon = float(told["synopsis"][0])
        return epsilon if epsilon <= min(self.most, MOST_EPSILON) else None

    # --- sites that have a width of their own -------------------------------------------------------------

    def _alone(self, schema: Schema, *, width: float, beta: float) -> float:
        """The price of an answer within this width by itself, whether the site takes the noise that every document of
        this epsilon gets or the one it finds cheapest."""
        least = self._least(lambda epsilon: [self._fresh(schema, epsilon)], width, beta)
        try:
            _, bought = Wanted(MOST_EPSILON, self.document.delta, width, beta).calibrated(
                self.plan, schema, filter=(CONCENTRATED if self.smooth else BASIC).name
            )
        except (Mistake, Refusal):
            raise self._beyond() from None
        return max(least, float(bought.epsilon))

    def _enough(self, made: Additive | None, *, width: float, beta: float) -> bool:
        return made is not None and made.width(1 - beta / self.plan.size) <= width

    # --- sites whose noises are added up ------------------------------------------------------------------

    def _shared(self, sites: Sequence[str], within: float, beta: float) -> Split:
        have = {site: made for site in sites if (made := self._made(site)) is not None}
        best = sorted(have, key=lambda site: (have[site].deviation, site))
        counts = range(1, len(best) + 1) if len(best) <= _MOST_TRIED else [len(best)]
        bought = self._using((), sites, have, within, beta)
        if bought is None:
            raise self._beyond()
        found = [bought, *(self._using(best[:count], sites, have, within, beta) for count in counts)]
        affordable = [each for each in found if each is not None and each.epsilon <= self.most] or [bought]
        chosen = min(affordable, key=lambda each: ((len(sites) - len(each.free)) * each.epsilon, each.epsilon))
        if not chosen.free:
            return chosen
        # Should such an answer be gone when it is asked for, it is bought anew, for no more than the price.
        most = chosen.epsilon or bought.epsilon
        again = {site: self._as_good(self.schemas[site], have[site], most) for site in chosen.free}
        epsilon = max([*again.values(), chosen.epsilon])
        return replace(chosen, epsilon=epsilon, payloads={site: {"epsilon": own} for site, own in again.items()})

    def _using(
        self, free: Sequence[str], sites: Sequence[str], have: Mapping[str, Additive], within: float, beta: float
    ) -> Split | None:
        """Find what the others pay where these answers are used as they are; None where that is not enough."""
        kept = [have[site] for site in free]
        paying = [self.schemas[site] for site in sites if site not in free]
        if kept and together(kept).width(1 - beta / self.plan.size) > within:
            return None
        if not paying:
            return Split(0.0, free=tuple(free))
        try:
            epsilon = self._least(
                lambda epsilon: [*kept, *(self._fresh(schema, epsilon) for schema in paying)], within, beta
            )
        except InvalidDocument:
            return None
        return Split(epsilon, free=tuple(free))

    def _as_good(self, schema: Schema, made: Additive, most: float) -> float:
        """The epsilon whose noise is as good as this one, but no more than `most`."""

        def better(epsilon: float) -> bool:
            try:
                return self._fresh(schema, epsilon).deviation < made.deviation
            except Mistake:
                return False

        low, high = LEAST_EPSILON, most
        if not better(high):
            return most
        while _rounded(math.sqrt(low * high)) < high and low < high * (1 - 1e-3):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if better(middle) else (middle, high)
        return low

    def _least(self, noises: Callable[[float], list[Additive]], within: float, beta: float) -> float:
        """The least epsilon, to a few digits, with which the sum of the noises lies within the width."""
        level = 1 - beta / self.plan.size

        def enough(epsilon: float) -> bool:
            try:
                return together(noises(epsilon)).width(level) <= within
            except Mistake:  # so little epsilon that no noise can be drawn for it
                return False

        low, high = LEAST_EPSILON, 1.0
        while not enough(high):
            low, high = high, high * 8
            if high > MOST_EPSILON:
                raise self._beyond()
        while (middle := _rounded(math.sqrt(low * high))) < high and middle > low:
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def _fresh(self, schema: Schema, epsilon: float) -> Additive:
        if self.smooth:
            return noise_made(self.plan, schema, epsilon=epsilon, delta=self.document.delta)
        return noise_for(self.plan, schema, epsilon=epsilon, delta=self.document.delta)

    def _made(self, site: str) -> Additive | None:
        """The noise in the answer that a site has already; None where it has none that can be used."""
        told = self.quotes.get(site, {}).get("made")
        try:
            epsilon, delta = map(float, told) if told is not None else (0.0, 0.0)
            return noise_made(self.plan, self.schemas[site], epsilon=epsilon, delta=delta) if epsilon else None
        except (Mistake, TypeError, ValueError):
            return None

    def _beyond(self) -> InvalidDocument:
        return InvalidDocument([("accuracy", "is finer than any noise here can be; ask for a larger alpha")])


def _rounded(epsilon: float) -> float:
    """To a few digits, upwards: an epsilon that people can read."""
    exactly = Decimal(repr(epsilon))
    step = Decimal(1).scaleb(exactly.adjusted() - _DIGITS + 1)
    return float(exactly.quantize(step, ROUND_CEILING))

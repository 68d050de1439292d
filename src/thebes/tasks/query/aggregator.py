"""The coordinator's half of a query: totals of several sites added up, and what they say.

Exact totals are forgotten as soon as noise was added to their sum. Of totals that leave a site with their error, an
error bar speaks of what is in them: noise that was drawn for this document or for an earlier one, or a bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.questions.groups import bounds_of
from thebes.curator.questions.noise import loosest, noise_for
from thebes.curator.questions.plans import NoisyResult, QuestionPlan
from thebes.data.schema import Schema
from thebes.privacy.certificate import Certificate
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Hiding
from thebes.privacy.mechanisms.offset import Off
from thebes.privacy.mechanisms.summed_noise import together
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.aggregation.site_shares import LeaderShares, SealedShare
from thebes.tasks.aggregation.sites import CACHE, MECHANISM, SYNOPSIS
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.aggregation.split_servers import CoordinateNoise
from thebes.tasks.aggregation.split_sites import SplitSites
from thebes.tasks.contributions import Contributions, Layout, checked
from thebes.tasks.protocols import Setting
from thebes.tasks.query import found_keys
from thebes.tasks.query.accuracy import Split, reached, split
from thebes.tasks.query.kind import KIND, QueryDocument
from thebes.tasks.query.noises import noises
from thebes.tasks.query.release import MIXED, QueryRelease
from thebes.tasks.query.totals import Error, error_of, layout_of, read
from thebes.tasks.release import AT_ONCE, LEVELS


class QueryAggregator(SplitSites[QueryDocument]):
    _totals: NDArray[np.generic] | None = None  #: of the sites that have answered

    def __init__(self, document: QueryDocument, setting: Setting) -> None:
        for schema in setting.sites.values() if document.privacy == "none" else ():
            KIND.fits(document, schema)  # one data set that is not public is enough to refuse all
        super().__init__(document, setting)
        self._errors: dict[str, tuple[float, ...]] = {}  #: of the sites that have answered, as they travel
        self._said: dict[str, list[str]] = {}  #: the keys that sites have found, where nobody declared them
        self._keys: tuple[str, ...] | None = None  #: all of these together

    @cached_property
    def split(self) -> Split:
        """The split of the accuracy over the sites that are asked."""
        asked = {site: schema for site, schema in self.setting.sites.items() if site not in self._unlike}
        return split(self.document, asked, self.setting.quotes)

    def payload(self, site: str) -> dict[str, Any]:
        if self._keys is not None:
            return {found_keys.KEYS: list(self._keys)}
        if self.document.noise == "split":
            return self.shown_key()
        return dict(self.split.payloads.get(site, {})) if self.document.accuracy is not None else {}

    @property
    def _finding(self) -> bool:
        return self.document.phases > 1 and self.phase == found_keys.FINDING

    def layout(self, part: str, partition: int = 0) -> Layout:
        if self._finding:
            return found_keys.LAYOUT
        return layout_of(self.document, self._plan(self.sites[partition]))

    def examine(self, contributions: Contributions) -> Contributions:
        found = checked(self.layout(contributions.part, contributions.partition), contributions)
        site = self.sites[contributions.partition]
        if self._finding:
            found_keys.read(found.fields)
            return found
        if self.document.noise == "split":
            LeaderShares(self._plan(site).size).read(found.fields)
            return found
        read(self.document, self._plan(site), self._schema(site), found.fields)
        return found

    def hear(self, site: str, contributions: Contributions) -> None:
        if self._finding:
            self._said[site] = list(found_keys.read(contributions.fields))
            return
        if self.document.noise == "split":
            self.hear_share(site, self._plan(site).size, contributions.fields)
            return
        own, error = read(self.document, self._plan(site), self._schema(site), contributions.fields)
        if not self.document.exact:
            self._errors[site] = error.told
        if self._totals is None:
            self._totals = own
        elif own.dtype.kind == "f":
            self._totals = self._totals.astype(np.float64) + own.astype(np.float64)
        else:  # two totals within 2^61 fit into 64 bits; a clamp moves no two sums further apart
            both = self._totals.astype(np.int64) + own.astype(np.int64)
            self._totals = np.clip(both, -LARGEST_TOTAL, LARGEST_TOTAL)

    def noises(self, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
        return noises(self.document, shares)

    def finished(self) -> bool:
        """It ends before anybody answers where no key was found."""
        return super().finished() or self._keys == ()

    def conclude(self) -> QueryRelease | None:
        if self._finding:
            schema = self.setting.sites[self.answered[0]]
            self._keys, self._said = found_keys.together(self.document, schema, list(self._said.values())), {}
            return None if self._keys else self._without_keys()
        return self._concluded()

    def _concluded(self) -> QueryRelease:
        self.play_helper()
        schemas = {site: self._schema(site) for site in sorted(self.answered)}
        plan = self._plan(self.answered[0])
        errors = {} if self.document.privacy == "none" else self._found(plan, schemas)
        totals = self._summed(errors)
        found = finished(plan, totals, list(errors.values()))
        answers = {site: self._answer(site, errors) for site in schemas}
        cost = {name: max(told["cost"][name] for told in answers.values()) for name in ("epsilon", "delta")}
        sources = {told["source"] for told in answers.values()}
        source = sources.pop() if len(sources) == 1 else MIXED
        extra: dict[str, Any] = {"coverage": self.coverage, "cost": cost, "source": source}
        if len(answers) > 1 and any(told["source"] != MECHANISM for told in answers.values()):
            extra["sites"] = answers
        if self.document.accuracy is not None:
            extra["accuracy"] = {**self.document.accuracy.model_dump(), "reached": self._reached(plan, errors)}
        if self.document.by is not None:
            extra["by"] = list(self.document.by)
        if self._keys is not None:
            extra |= self._found_keys()
        certificate = self._certificate(plan, schemas, errors, answers, extra.get("accuracy"))
        self._errors = {}
        return QueryRelease(found.value, certificate, found.intervals, extra)

    def _summed(self, errors: Mapping[str, Error]) -> Floats:
        """Return the sum of all totals with its noise, and forget them."""
        if self.document.noise == "split":
            return self.opened()
        assert self._totals is not None  # noqa: S101
        found, self._totals = self._totals, None
        if self.document.noise != "coordinator":
            return found.astype(np.float64)
        (error,) = errors.values()
        assert error.noise is not None  # noqa: S101
        return error.noise.add(found.astype(np.int64), self.setting.randomness)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        facts = self.shares_kept()
        if self._errors:
            facts["errors"] = {site: list(told) for site, told in self._errors.items()}
        if self._said or self._keys is not None:
            facts["said"], facts["keys"] = self._said, None if self._keys is None else list(self._keys)
        return facts, {} if self._totals is None else {"totals": self._totals}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._totals = arrays.get("totals")
        if self.answered and self.document.noise == "split":
            self.remember_shares(facts, self._plan(self.answered[0]).size)
        self._errors = {site: tuple(told) for site, told in facts.get("errors", {}).items()}
        self._said, keys = facts.get("said", {}), facts.get("keys")
        self._keys = None if keys is None else tuple(keys)

    def _schema(self, site: str) -> Schema:
        schema = self.setting.sites[site]
        return schema if not self._keys else self.document.declared(schema, self._keys)

    def _plan(self, site: str) -> QuestionPlan:
        return self.document.plan(self._schema(site))

    def _found(self, plan: QuestionPlan, schemas: Mapping[str, Schema]) -> dict[str, Error]:
        """Return what is known of every error in the sum, by whose it is."""
        if self.document.noise == "coordinator":
            budget = {"epsilon": self.document.epsilon, "delta": self.document.delta}
            return {"coordinator": Error(noise_for(plan, loosest(schemas.values()), **budget))}
        if self.document.noise == "split":
            return {"coordinator": Error(self.each_noise), "helper": Error(self.each_noise)}
        return {site: error_of(self._plan(site), schema, self._errors[site]) for site, schema in schemas.items()}

    def _answer(self, site: str, errors: Mapping[str, Error]) -> dict[str, Any]:
        """Tell what a site's answer cost there and where it came from: as it says, else as the document does."""
        if self._keys is not None:  # both phases
            return {"cost": {"epsilon": self.document.epsilon, "delta": self.document.delta}, "source": MECHANISM}
        if site in self._paid and not self.document.exact:
            return self._paid[site]
        noise = next((error.noise for name, error in errors.items() if name in (site, "coordinator")), None)
        smooth = noise is not None and noise.kind == "gaussian"
        cost = {"epsilon": self.document.epsilon, "delta": self.document.delta if smooth else 0.0}
        return {"cost": cost, "source": MECHANISM}

    def _certificate(
        self,
        plan: QuestionPlan,
        schemas: Mapping[str, Schema],
        errors: Mapping[str, Error],
        answers: Mapping[str, Mapping[str, Any]],
        accuracy: Mapping[str, Any] | None,
    ) -> Certificate:
        document = self.document
        # What is given again was made to hide people at its own epsilon and delta, and paid for then.
        paid = [told["cost"]["delta"] for told in answers.values()]
        delta = max([*paid, *(error.made[1] for error in errors.values())])
        guarantee = "none" if not errors else "approximate" if delta else "pure"
        parameters: dict[str, Any] = {
            "statistic": document.asks,
            **plan.parameters,
            "rows_of_one_person": {site: schema.max_rows_per_unit for site, schema in schemas.items()},
        }
        if self._keys is not None:
            parameters["found"] = self._selections()
        noise = {who: self._noise(plan, error) for who, error in errors.items() if error.noise is not None}
        bound = {who: {"within": e.width * plan.step, "odds": e.beta} for who, e in errors.items() if e.beta}
        parameters |= {name: told for name, told in (("noise", noise), ("bound", bound)) if told}
        if any(told["source"] != MECHANISM for told in answers.values()):
            parameters["paid"] = {site: {**told["cost"], "source": told["source"]} for site, told in answers.items()}
        if accuracy is not None:
            parameters["accuracy"] = accuracy
        parameters |= self.of_servers
        if document.one_noise:
            parameters["drawn_by"] = self.setting.randomness.drawn_by
        return Certificate(
            unit=self.unit,
            adjacency=Adjacency.ADD_REMOVE_ONE,
            epsilon=document.epsilon,
            delta=delta,
            guarantee=guarantee,
            mechanism=self._mechanism(errors) if errors else f"exact {document.asks}",
            parameters=parameters,
            bounds=self._bounds(next(iter(schemas.values()))) or None,
            trust=self.trust,
            simulated=self.setting.simulated,
            notes=(*self._told(errors, answers), *exactly(accuracy), *plan.notes),
            beside_earlier=any(told["source"] == SYNOPSIS for told in answers.values()) or bool(self._looser(errors)),
        )

    def _selections(self) -> dict[str, dict[str, Any]]:
        """Return by which noise and threshold each site finds keys."""
        each = {site: found_keys.selection_of(self.document, schema) for site, schema in self.setting.sites.items()}
        return {
            site: {"kind": one.noise.kind, "scale": one.noise.scale, "threshold": one.least, "of_one_person": one.keys}
            for site, one in each.items()
        }

    def _found_keys(self) -> dict[str, Any]:
        """Return what a release says of the keys that were found."""
        column = self.document.undeclared(next(iter(self.setting.sites.values())))
        threshold = max(one["threshold"] for one in self._selections().values())
        return {"found": {"column": column, "keys": list(self._keys or ()), "threshold": threshold}}

    def _of_join(self) -> tuple[str, ...]:
        """Say of joined rows whose they are."""
        if self.document.join is None:
            return ()
        return (
            f"The rows are those of {self.document.dataset} joined with those of {self.document.join} of the same "
            "person: what a person has in both is hidden.",
        )

    def _of_keys(self) -> tuple[str, ...]:
        if self._keys is None:
            return ()
        told = self._found_keys()["found"]
        return (
            f"Which values {told['column']} has was found for half of the price: of each that is shown, a noisy number "
            f"of people at some site reached the threshold, {told['threshold']} at most. Others stay unsaid.",
        )

    def _without_keys(self) -> QueryRelease:
        """Release that no key was found."""
        document, told = self.document, self._found_keys()
        extra = {"coverage": self.coverage, "cost": {"epsilon": document.epsilon, "delta": document.delta}, **told}
        certificate = Certificate(
            unit=self.unit,
            adjacency=Adjacency.ADD_REMOVE_ONE,
            epsilon=document.epsilon,
            delta=document.delta,
            guarantee="approximate",
            mechanism="keys that enough people have, by a threshold",
            parameters={"statistic": document.asks, "found": self._selections()},
            trust=self.trust,
            simulated=self.setting.simulated,
            notes=(*self.notes, *self._of_join(), *self._of_keys(), "No group was found, so none was answered."),
        )
        return QueryRelease({}, certificate, {}, {**extra, "source": MECHANISM, "by": list(document.by or ())})

    def _bounds(self, schema: Schema) -> dict[str, Mapping[str, Any]]:
        """Return the bounds of the columns and features that were counted with, and of what these are made of."""
        return bounds_of(self.document.made.schema(schema), (*self.document.used, *self.document.reads))

    def _reached(self, plan: QuestionPlan, errors: Mapping[str, Error]) -> float | None:
        """Within how much of the exact answer this one lies, at the odds that were asked for."""
        assert self.document.accuracy is not None  # noqa: S101
        if not all(error.known for error in errors.values()):
            return None
        return reached(
            plan,
            [error.noise for error in errors.values() if error.noise is not None],
            off=math.fsum(error.width for error in errors.values()),
            missed=math.fsum(error.beta for error in errors.values()),
            beta=self.document.accuracy.beta,
        )

    def _looser(self, errors: Mapping[str, Error]) -> dict[str, float]:
        """Sites whose answer was made at a larger price than this document's: by it alone more is told."""
        asked = (self.document.epsilon, self.document.delta)
        return {
            site: error.made[0]
            for site, error in errors.items()
            if error.made[0] > asked[0] or error.made[1] > asked[1]
        }

    def _noise(self, plan: QuestionPlan, error: Error) -> dict[str, Any]:
        assert error.noise is not None  # noqa: S101
        told: dict[str, Any] = {"kind": error.noise.kind, "scale": error.noise.scale * plan.step}
        epsilon, delta = error.made
        if epsilon not in (0.0, self.document.epsilon):
            told["made_for"] = {"epsilon": epsilon, "delta": delta}
        return told

    def _mechanism(self, errors: Mapping[str, Error]) -> str:
        kinds = sorted({error.noise.kind for error in errors.values() if error.noise is not None})
        how = [f"{' and '.join(kinds)} noise"] if kinds else []
        how += ["a synopsis"] if any(error.noise is None for error in errors.values()) else []
        places = {"coordinator": "once at the coordinator", "split": "once at each of two servers"}
        where = places.get(self.document.noise, "at each site")
        keys = "" if self._keys is None else ", of groups that were found by a threshold"
        return f"{self.document.asks} with {' or '.join(how)} {where}{keys}"

    def _told(self, errors: Mapping[str, Error], answers: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
        if not errors:
            return ("Every site's steward marked the data set public: nothing was hidden, and nothing was spent.",)
        said = [*self.notes, *self._of_join(), *self._of_keys()]
        again = [site for site, told in answers.items() if told["source"] == CACHE]
        if again:
            said.append(
                f"What {_and(again)} answered had been released before and was paid for then. Given again, with the "
                "same noise, it tells nothing new and cost nothing."
            )
        looser = self._looser(errors)
        said += [
            f"What {_and([site for site in looser if looser[site] == epsilon])} answered was made at epsilon "
            f"{figure(epsilon)}: to somebody who sees it for the first time it tells that much, and not epsilon "
            f"{figure(self.document.epsilon)}."
            for epsilon in dict.fromkeys(looser.values())
        ]
        said += [
            f"What {site} answered follows from what was released before and from a check against the rows, which cost "
            f"epsilon {figure(told['cost']['epsilon'])} this time."
            for site, told in answers.items()
            if told["source"] == SYNOPSIS
        ]
        return tuple(said)


def _and(sites: Sequence[str]) -> str:
    """Name sites as a sentence does."""
    return " and ".join(filter(None, [", ".join(sites[:-1]), *sites[-1:]]))


def exactly(accuracy: Mapping[str, Any] | None) -> tuple[str, ...]:
    """State what a certificate says of an accuracy that was asked for."""
    if accuracy is None:
        return ()
    asked, found = f"within {figure(accuracy['alpha'])}", accuracy["reached"]
    sure = f"{figure(100 * (1 - accuracy['beta']))} % of the time"
    if found is None or found > accuracy["alpha"] * (1 + 1e-9):
        reason = "is not known to" if found is None else f"lies within {figure(found)} only, so it does not"
        return (
            f"The answer was to lie {asked} of the exact one {sure}; it {reason}: not every site gave what it said.",
        )
    return (
        f"All of the answer lies {asked} of the exact one {sure} (within {figure(found)}, as the noise was drawn).",
    )


def finished(plan: QuestionPlan, totals: Floats, errors: Sequence[Error]) -> NoisyResult:
    """Return what the sum of totals says, each with its error (none: exact)."""
    if not all(error.known for error in errors):
        return plan.finish(totals, None, LEVELS)
    levels = LEVELS if plan.single is not None and not plan.groups.axes else (*LEVELS, *AT_ONCE)
    noises = [error.noise for error in errors if error.noise is not None]
    hidden: Hiding | None = together(noises) if noises else None
    beta = math.fsum(error.beta for error in errors)
    if beta:
        hidden = Off(math.fsum(error.width for error in errors), hidden)
    return plan.finish(totals, hidden, levels, beta=beta)


AGGREGATOR = QueryAggregator

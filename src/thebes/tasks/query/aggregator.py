"""The coordinator's half of a query: totals of several sites added up, and what they say.

Exact totals are forgotten as soon as noise was added to their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.groups import bounds_of
from thebes.curator.noise import delta_of, loosest, noise_for
from thebes.curator.plans import Plan
from thebes.data.schema import Schema
from thebes.privacy.certificate import Certificate
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.several import together
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import LARGEST_TOTAL
from thebes.tasks.contributions import Contributions, Layout, checked
from thebes.tasks.convening import Convening
from thebes.tasks.query.kind import KIND, QueryDocument
from thebes.tasks.query.release import QueryRelease
from thebes.tasks.query.totals import layout_of, read
from thebes.tasks.release import LEVELS
from thebes.tasks.shape import Setting
from thebes.tasks.snapshots import Arrays


class QueryAggregator(Convening):
    document: QueryDocument

    _totals: NDArray[np.generic] | None = None  #: of the sites that have answered

    def __init__(self, document: QueryDocument, setting: Setting) -> None:
        for schema in setting.sites.values() if document.privacy == "none" else ():
            KIND.fits(document, schema)  # one data set that is not public is enough to refuse all
        super().__init__(document, setting)

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self.document, self._plan(self.sites[partition]))

    def examine(self, contributions: Contributions) -> Contributions:
        found = checked(self.layout(contributions.part, contributions.partition), contributions)
        site = self.sites[contributions.partition]
        read(self.document, self._plan(site), self._schema(site), found.fields)
        return found

    def hear(self, site: str, contributions: Contributions) -> None:
        own = read(self.document, self._plan(site), self._schema(site), contributions.fields)
        if self._totals is None:
            self._totals = own
        elif own.dtype.kind == "f":
            self._totals = self._totals.astype(np.float64) + own.astype(np.float64)
        else:  # two totals within 2^61 fit into 64 bits; a clamp moves no two sums further apart
            both = self._totals.astype(np.int64) + own.astype(np.int64)
            self._totals = np.clip(both, -LARGEST_TOTAL, LARGEST_TOTAL)

    def conclude(self) -> QueryRelease:
        assert self._totals is not None  # noqa: S101
        document, schemas = self.document, {site: self._schema(site) for site in sorted(self.answered)}
        plan = self._plan(self.answered[0])
        noises = {} if document.privacy == "none" else self._noises(plan, schemas)
        totals = self._totals.astype(np.float64)
        if document.noise == "coordinator":
            (noise,) = noises.values()
            totals = noise.add(self._totals.astype(np.int64), self.setting.randomness)
        self._totals = None
        hidden = together(list(noises.values())) if noises else None
        found = plan.finish(totals, hidden, LEVELS)
        cost = {"epsilon": document.epsilon, "delta": delta_of(noises.values(), document.delta)}
        extra = {"coverage": self.coverage, "cost": cost, "source": "mechanism"}
        if document.by is not None:
            extra["by"] = list(document.by)
        return QueryRelease(found.value, self._certificate(plan, schemas, noises), found.intervals, extra)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {} if self._totals is None else {"totals": self._totals}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._totals = arrays.get("totals")

    def _schema(self, site: str) -> Schema:
        return self.setting.sites[site]

    def _plan(self, site: str) -> Plan:
        return self.document.plan(self._schema(site))

    def _noises(self, plan: Plan, schemas: Mapping[str, Schema]) -> dict[str, Additive]:
        """Every noise in the sum, by who added it."""
        budget = {"epsilon": self.document.epsilon, "delta": self.document.delta}
        if self.document.noise == "coordinator":
            return {"coordinator": noise_for(plan, loosest(schemas.values()), **budget)}
        return {site: noise_for(self._plan(site), schema, **budget) for site, schema in schemas.items()}

    def _certificate(self, plan: Plan, schemas: Mapping[str, Schema], noises: Mapping[str, Additive]) -> Certificate:
        document = self.document
        delta = delta_of(noises.values(), document.delta)
        kinds = " and ".join(sorted({noise.kind for noise in noises.values()}))
        where = "once at the coordinator" if document.noise == "coordinator" else "at each site"
        guarantee = "none" if not noises else "approximate" if delta else "pure"
        parameters: dict[str, Any] = {
            "statistic": document.statistic,
            **plan.parameters,
            "rows_of_one_person": {site: schema.max_rows_per_unit for site, schema in schemas.items()},
        }
        if noises:
            parameters["noise"] = {
                who: {"kind": noise.kind, "scale": noise.scale * plan.step} for who, noise in noises.items()
            }
        if document.noise == "coordinator":
            parameters["drawn_by"] = self.setting.randomness.drawn_by
        return Certificate(
            unit=self.unit,
            adjacency=Adjacency.ADD_REMOVE_ONE,
            epsilon=document.epsilon,
            delta=delta,
            guarantee=guarantee,
            mechanism=f"{document.statistic} with {kinds} noise {where}" if noises else f"exact {document.statistic}",
            parameters=parameters,
            bounds=bounds_of(next(iter(schemas.values())), document.reads) or None,
            trust=self.trust,
            simulated=self.setting.simulated,
            notes=(*self._said(noises), *plan.notes),
        )

    def _said(self, noises: Mapping[str, Additive]) -> tuple[str, ...]:
        if not noises:
            return ("Every site's steward marked the data set public: nothing was hidden, and nothing was spent.",)
        return self.notes


AGGREGATOR = QueryAggregator

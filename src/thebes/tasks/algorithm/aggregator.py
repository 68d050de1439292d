"""The coordinator's half of a composed algorithm: `train`'s or `query`'s own, for schemas with the features in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thebes.data.derived_columns import derived_schema
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.sites import Convening
from thebes.tasks.algorithm.kind import AlgorithmDocument
from thebes.tasks.protocols import Setting
from thebes.tasks.query.aggregator import QueryAggregator
from thebes.tasks.train.aggregator import TrainAggregator


class ComposedQuery(QueryAggregator):
    """A statistic of features: asked as a query is, told apart by the columns that the features are made of."""

    def __init__(self, document: AlgorithmDocument, setting: Setting) -> None:
        self._composed = document
        super().__init__(document.question, setting)

    @property
    def reads(self) -> tuple[str, ...]:
        return self._composed.reads

    def unfit(self, schema: Schema) -> str | None:
        for name in self._composed.reads:
            try:
                schema.column(name)
            except Mistake as refused:
                return f"its data set does not fit the task: {refused.argument} {refused.message}"
        return None


def begun(document: Any, setting: Setting) -> Convening:
    """An aggregator for a checked document."""
    schemas = {site: _with_features(document, schema) for site, schema in setting.sites.items()}
    own = replace(setting, sites=schemas)
    return TrainAggregator(document, own) if document.map.gradient is not None else ComposedQuery(document, own)


def _with_features(document: AlgorithmDocument, schema: Schema) -> Schema:
    """The schema with the features; where they cannot be made, as it is: such a site is named and left out."""
    try:
        return derived_schema(document.features, schema)
    except Mistake:
        return schema


AGGREGATOR = begun

"""A site's half of a composed algorithm: `train`'s or `query`'s own, over the same rows with the features in them."""

from __future__ import annotations

import weakref

from thebes.data.derived_columns import DerivedTable, derived_schema
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.privacy.randomness import Randomness
from thebes.tasks.algorithm.kind import AlgorithmDocument
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.protocols import Ask, Claim
from thebes.tasks.query.owner import OWNER as ASKED
from thebes.tasks.train.owner import OWNER as TRAINED
from thebes.tasks.train.owner import SIMULATED as TRAINED_HERE
from thebes.tasks.train.owner import TrainOwner


class AlgorithmOwner:
    def __init__(self, trained: TrainOwner) -> None:
        self._trained = trained
        #: the same object in every round, so that what `train` holds of it is found again
        self._derived: dict[tuple[int, str], tuple[weakref.ref[Table], DerivedTable]] = {}

    def contribute(
        self, document: AlgorithmDocument, ask: Ask, table: Table, claim: Claim, *, randomness: Randomness
    ) -> Contributions:
        """Return what the map says of this site's rows, reduced to one sum."""
        own = self._with_features(document, table)
        if document.map.gradient is not None:
            return self._trained.contribute(document, ask, own, claim, randomness=randomness)
        return ASKED.contribute(document.question, ask, own, claim, randomness=randomness)

    def layout(self, document: AlgorithmDocument, ask: Ask, schema: Schema) -> Layout:
        own = derived_schema(document.features, schema)
        if document.map.gradient is not None:
            return self._trained.layout(document, ask, own)
        return ASKED.layout(document.question, ask, own)

    def _with_features(self, document: AlgorithmDocument, table: Table) -> Table:
        if not document.features:
            return table
        key = (id(table), document.digest)
        found = self._derived.get(key)
        if found is not None and found[0]() is table:
            return found[1]
        made = DerivedTable(table, document.features)
        self._derived[key] = (weakref.ref(table, lambda _: self._derived.pop(key, None)), made)
        return made


OWNER = AlgorithmOwner(TRAINED)
SIMULATED = AlgorithmOwner(TRAINED_HERE)

"""A model of the store, ready to be asked: its bundle read back, features and all.

What must stay true: a bundle is data. Nothing of it is executed, and a model that only its developer's own code can
read is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.pipelines.blocks import feature_of
from thebes.curator.pipelines.ready.statistics import StatisticsModel
from thebes.learning.inputs import NamedInputs
from thebes.learning.moments import LinearModel
from thebes.learning.network import NetworkModel
from thebes.learning.odds import OddsModel
from thebes.privacy.faults import Mistake, Refusal

Floats = NDArray[np.float64]
MOST_ROWS = 10_000  #: in one request
_MOST_NAMED = 63  #: characters of a name that is told back
Model = LinearModel | OddsModel | NetworkModel | StatisticsModel


#: by the `kind` in its document
KINDS: Mapping[str, type[Model]] = {
    made.__name__: made for made in (LinearModel, OddsModel, NetworkModel, StatisticsModel)
}


def model_of(told: Any) -> Model:
    """A model from its document; a Refusal for a kind that is not one of these."""
    kind = told.get("kind") if isinstance(told, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        named = f" {kind[:_MOST_NAMED]!r}" if isinstance(kind, str) else ""
        raise Refusal(
            f"a model of its developer's own kind{named} is not used here, because that would take their code: "
            "download it and use it where the code is"
        )
    return KINDS[kind].of_json(told)


class Served(NamedInputs):
    """The model of a bundle with its features. `inputs` are the stream's own columns that it needs."""

    def __init__(self, bundle: Mapping[str, Any]) -> None:
        self.model = model_of(bundle["model"])
        self.output = str(bundle.get("output") or "")
        self._made = tuple(feature_of(one) for one in bundle.get("features") or ())
        model = self.model
        self._reads = (model.column,) if isinstance(model, StatisticsModel) else model.features.columns
        self.inputs = self._needed()

    def predict(self, rows: Any) -> Floats:
        """One number for each row: the expected output, how likely its second value is, or its group's number (NaN for
        a row of no group). `rows` are a data frame, columns by name or one mapping for each row."""
        columns = self._columns(rows)
        held: dict[str, Floats] = {}
        for one in self._made:  # each is made of those before it
            if not set(one.makes) & self._wanted:
                continue
            needs = [held[name] if name in held else one.number(columns[name]) for name in one.needs]
            found = np.asarray(one.of(np.column_stack(needs)), dtype=np.float64)
            held |= {name: found[:, place] for place, name in enumerate(one.makes)}
        batch = [held[name] if name in held else self._number(name, columns[name]) for name in self._reads]
        return np.asarray(self.model.predict(np.column_stack(batch)), dtype=np.float64)

    def answer(self, rows: Any) -> list[float | None]:
        """The same as JSON has it: None where there is no number."""
        if not isinstance(rows, list) or not 0 < len(rows) <= MOST_ROWS:
            raise Mistake("rows", f"must be a list of 1 to {MOST_ROWS} objects")
        return [float(each) if math.isfinite(each) else None for each in self.predict(rows)]

    def _number(self, name: str, values: NDArray[Any]) -> Floats:
        """A column as somebody writes it, as a batch would have it."""
        if isinstance(self.model, StatisticsModel):
            return self.model.number(values)
        piece = next(piece for piece in self.model.features.pieces if piece.column == name)
        return piece.number(values)

    @property
    def _wanted(self) -> set[str]:
        """Every column that the model needs, made or not."""
        wanted = set(self._reads)
        for one in reversed(self._made):
            if set(one.makes) & wanted:
                wanted |= set(one.needs)
        return wanted

    def _needed(self) -> tuple[str, ...]:
        made = {name for one in self._made for name in one.makes}
        order = [*self._reads, *(name for one in self._made for name in one.needs)]
        return tuple(dict.fromkeys(name for name in order if name in self._wanted - made))

    def _columns(self, rows: Any) -> dict[str, NDArray[Any]]:
        """Return what is needed of the rows, as they were written."""
        if isinstance(rows, Mapping):
            columns: dict[str, Sequence[Any]] = {str(name): _listed(values) for name, values in rows.items()}
            self._known(columns, "rows")
        elif hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
            columns = {name: _of_frame(rows[name]) for name in self.inputs if name in rows.columns}
        elif isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
            columns = self._of_rows(rows)
        else:
            raise Mistake("rows", "must be a data frame, columns by name, or a list of objects")
        for name in self.inputs:
            if name not in columns:
                raise Mistake("rows", f"have no column {name!r}")
        if len({len(columns[name]) for name in self.inputs}) != 1:
            raise Mistake("rows", "must have as many values in every column")
        return {name: _objects(columns[name]) for name in self.inputs}

    def _of_rows(self, rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
        for place, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise Mistake("rows", f"row {place} must be an object")
            self._known(row, f"row {place}")
            for name in self.inputs:
                if name not in row:
                    raise Mistake("rows", f"row {place} has no {name!r}; null says that it is missing")
        return {name: [row[name] for row in rows] for name in self.inputs}

    def _known(self, names: Mapping[Any, Any], where: str) -> None:
        """Refuse columns that nothing is made of: most of them are misspelt. What is predicted may be there."""
        strange = [name for name in names if name not in self.inputs and name != self.output]
        if strange:
            known = ", ".join(self.inputs)
            raise Mistake(
                "rows", f"{where}: {str(strange[0])[:_MOST_NAMED]!r} is not a column of this model, which has {known}"
            )


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__") or isinstance(values, Mapping):
        raise Mistake("rows", "must have a list of values in every column")
    found: Sequence[Any] = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return found


def _of_frame(column: Any) -> Sequence[Any]:
    """A column of a data frame, None for what is missing."""
    plain = column.astype(object)
    found: Sequence[Any] = plain.where(column.notna(), None).tolist() if hasattr(column, "notna") else list(plain)
    return found


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = [value if isinstance(value, bool | int | float | str) else _plain(value) for value in values]
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value

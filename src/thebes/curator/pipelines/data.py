"""The data that a pipeline's code is given: the rows of its attempt's blocks, or the part of them to train or to
validate on.

What must stay true: the two parts share no row, by a coin of each row alone; how many rows there are is said as noise
that the blocks have bought already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema
from thebes.data.table import Batch, Sums
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness, system

Floats = NDArray[np.float64]
Name = Literal["train", "test"]


class BlockRows(Protocol):
    """The rows of some blocks of a stream, read-only."""

    @property
    def schema(self) -> Schema: ...

    def part(self, which: Name, *, test: float = ...) -> BlockRows:
        """Those whose own coin says so: a share `test` of them to test on, the others for training."""
        ...

    def arrays(self, columns: Sequence[str], *, rows: int = ...) -> Iterator[Floats]:
        """The rows that have all of these columns, some at a time: one column of numbers for each."""
        ...

    def batches(self, columns: Sequence[str], *, rows: int = ...) -> Iterator[Batch]:
        """The same unit by unit, saying whose each row is."""
        ...

    def sums(self, wanted: Sums) -> NDArray[np.int64]: ...

    def close(self) -> None: ...


class Feature(Protocol):
    """Columns made of columns, row by row, from nothing but the row and numbers that were released before. It goes into
    the bundle with the model, whose inputs it makes."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns it is made from."""
        ...

    @property
    def makes(self) -> tuple[str, ...]:
        """The columns it makes."""
        ...

    def of(self, numbers: Floats) -> Floats:
        """Return what it makes of rows that have a column of numbers for each of `needs`: a column for each of
        `makes`."""
        ...

    def as_json(self) -> Mapping[str, Any]:
        """Everything that `of` follows from."""
        ...


@dataclass(frozen=True)
class Data:
    """Rows, how many about (`size`, public), and the features that were made of them."""

    rows: BlockRows
    size: float
    features: tuple[Feature, ...] = ()
    randomness: Randomness = field(default_factory=system)

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    @property
    def table(self) -> Any:
        """The rows as the stream gives them."""
        return self.rows

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        """Exact whole-number totals over the rows' own columns; only noise makes them fit to leave."""
        return self.rows.sums(wanted)

    def arrays(self, columns: Sequence[str], *, rows: int = 65_536) -> Iterator[Floats]:
        """The rows some at a time, one column for each name: one of the schema's or one that a feature makes."""
        names, own = tuple(columns), self._own(columns)
        for batch in self.rows.arrays(own, rows=rows):
            yield self._with_made(batch, own, names)

    def batches(self, columns: Sequence[str], *, rows: int = 65_536) -> Iterator[Batch]:
        """The same unit by unit: `people` says whose each row is, and rows of one lie together and in one batch. Where
        a row is a unit each is its own."""
        if self.schema.change.rows == 1:
            for numbers in self.arrays(columns, rows=rows):
                yield Batch(numbers, np.arange(len(numbers)))
            return
        names, own = tuple(columns), self._own(columns)
        for batch in self.rows.batches(own, rows=rows):
            yield Batch(self._with_made(batch.numbers, own, names), batch.people)

    def columns(self, columns: Sequence[str]) -> Floats:
        """All rows at once; for parts that fit into memory."""
        found = list(self.arrays(columns))
        return np.concatenate(found) if found else np.empty((0, len(columns)))

    def with_features(self, *features: Feature) -> Data:
        """The same rows with columns more, each made of those before it."""
        known = {*self.schema.columns, *(name for one in self.features for name in one.makes)}
        for one in features:
            for name in one.needs:
                if name not in known:
                    raise Mistake("features", f"need {name[:63]!r}, which neither the stream nor a feature before has")
            for name in one.makes:
                if name in known:
                    raise Mistake("features", f"make {name[:63]!r}, which is there already")
            known |= set(one.makes)
        return replace(self, features=(*self.features, *features))

    def part(self, name: Name, share: float) -> Data:
        """The rows to train or to test on, with the same features; about how many follows from the public size."""
        size = self.size * (share if name == "train" else 1 - share)
        return replace(self, rows=self.rows.part(name, test=1 - share), size=max(1.0, size))

    def _own(self, columns: Sequence[str]) -> list[str]:
        """The stream's own columns that these are made of."""
        own = list(dict.fromkeys(n for one in self._wanted(tuple(columns)) for n in one.needs if not self._made(n)))
        return own + [name for name in columns if not self._made(name) and name not in own]

    def _with_made(self, rows: Floats, own: Sequence[str], names: tuple[str, ...]) -> Floats:
        held = {name: rows[:, place] for place, name in enumerate(own)}
        for one in self._wanted(names):
            made = np.asarray(one.of(np.column_stack([held[name] for name in one.needs])), dtype=np.float64)
            held |= {name: made[:, place] for place, name in enumerate(one.makes)}
        return np.column_stack([held[name] for name in names])

    def _made(self, name: str) -> Feature | None:
        return next((one for one in self.features if name in one.makes), None)

    def _wanted(self, names: tuple[str, ...]) -> list[Feature]:
        """The features that these columns need, each after those it needs itself."""
        found: list[Feature] = []

        def add(name: str) -> None:
            one = self._made(name)
            if one is not None and one not in found:
                for inner in one.needs:
                    add(inner)
                found.append(one)

        for name in names:
            add(name)
        return found

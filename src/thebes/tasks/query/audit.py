"""The audit's rows of queries over institutions: what one site sends, or what everybody is told of its totals, with
one person there or not, who has as many rows as a person may have."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.quantiles import QuantilePlan
from thebes.data.engines.source import frame_table, given_join
from thebes.data.join import join
from thebes.data.schema import Column, Schema, schema_of
from thebes.data.table import Batch, Sums, Table
from thebes.privacy.mechanisms.key_selection import KeySelection
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import system
from thebes.sharing import SealingKey
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.audit import shares, sites
from thebes.tasks.audit.case import Audited, Case, Draw, Enumerated, repeatedly
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.query import found_keys
from thebes.tasks.query.kind import KIND, QueryDocument
from thebes.tasks.query.totals import TOTALS

ADD = Adjacency.ADD_REMOVE_ONE
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
FAST = system()
ROWS = 3
SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": ROWS,
        "columns": {
            "who": {"type": "string", "key": True},
            "x": {"type": "float", "low": 0, "high": 10},
            "y": {"type": "float", "low": 0, "high": 10},
            "g": {"type": "string", "values": ["a", "b", "c"]},
        },
    }
)
_OPEN = SCHEMA.model_copy(
    update={"columns": {name: SCHEMA.columns[name] for name in ("who", "x")} | {"g": Column(type="string")}}
)  #: whose groups nobody has declared
_KEYS = ("many", "mine", "own")
_FINDING: dict[str, Any] = {
    "type": "query",
    "dataset": "audited",
    "statistic": "count",
    "by": "g",
    "epsilon": 1.0,
    "delta": 0.1,
}
#: two data sets of the same people, of whom two and three rows count
_JOINED = {
    name: schema_of(
        {
            "unit": "person",
            "people": "patients",
            "max_rows_per_unit": most,
            "columns": {"who": {"type": "string", "key": True}, column: {"type": "float", "low": 0, "high": 10}},
        }
    )
    for name, column, most in (("patients", "x", 2), ("visits", "y", ROWS))
}
_SUMMED: dict[str, Any] = {
    "epsilon": 1.0,
    "type": "query",
    "dataset": "patients",
    "join": "visits",
    "statistic": "sum",
    "column": "x",
}
OTHERS = pd.DataFrame({"who": ["p", "q"], "x": [0.0, 0.0], "y": [0.0, 10.0], "g": ["a", "b"]})
#: the same answer three times, so that all of it falls into one cell; and one in every group
ALIKE = pd.DataFrame({"who": ["me"] * ROWS, "x": [10.0] * ROWS, "y": [10.0] * ROWS, "g": ["c"] * ROWS})
SPREAD = ALIKE.assign(g=["a", "b", "c"])

SEVERAL: dict[str, dict[str, Any]] = {
    "all": {"statistic": "count"},
    "each": {"statistic": "people"},
    "added": {"statistic": "sum", "column": "x"},
    "middle": {"statistic": "mean", "column": "x"},
    "spread": {"statistic": "variance", "column": "y"},
    "half": {"statistic": "quantile", "column": "y", "quantile": 0.5, "bins": 4},
}
QUESTIONS: dict[str, tuple[dict[str, Any], pd.DataFrame]] = {
    "count": ({}, ALIKE),
    "count by group": ({"statistic": "count", "by": "g"}, SPREAD),
    "sum": ({"column": "x"}, ALIKE),
    "mean": ({"column": "x"}, ALIKE),
    "mean by group": ({"statistic": "mean", "column": "x", "by": "g"}, SPREAD),
    "mean of a new column": (
        {"statistic": "mean", "column": "z", "features": {"z": {"divide": [{"square": "x"}, 4]}}},
        ALIKE,
    ),
    "count by words that are chosen": (
        {"statistic": "count", "by": "z", "features": {"z": {"choose": [["x > 5", "much"], "little"]}}},
        ALIKE,
    ),
    "variance": ({"column": "x"}, ALIKE),
    "histogram": ({"column": "x", "bins": 4}, ALIKE),
    "quantile": ({"column": "x", "quantile": 0.5, "bins": 4}, ALIKE),
    "quantile in levels": ({"statistic": "quantile", "column": "x", "quantile": 0.5, "bins": 1024}, ALIKE),
    "quantile by group": (
        {"statistic": "quantile", "column": "x", "quantile": 0.5, "bins": 4, "by": "g"},
        SPREAD,
    ),
    "correlation": ({"columns": ["x", "y"]}, ALIKE),
    "several statistics": ({"statistic": None, "statistics": SEVERAL}, ALIKE),
    "several statistics by group": ({"statistic": None, "statistics": SEVERAL, "by": "g"}, SPREAD),
}
_SPLIT = ("count", "count by group", "sum", "mean", "quantile")  #: of these also what one of two servers learns


class SummedTable:
    """A table whose sums were added up before, and whose rows were read: what differs between two draws is noise."""

    def __init__(self, frame: pd.DataFrame, schema: Schema = SCHEMA) -> None:
        self.schema = schema
        self._table = frame_table(schema, frame)
        self._sums: dict[Sums, NDArray[np.int64]] = {}
        self._rows: dict[tuple[Any, ...], list[Batch]] = {}
        self._frame = frame
        self._texts: dict[tuple[Any, ...], Mapping[str, int]] = {}
        self._declared: dict[tuple[str, ...], SummedTable] = {}

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        if wanted not in self._sums:
            self._sums[wanted] = self._table.sums(wanted)
        return self._sums[wanted]

    def occurring(self, column: str, where: Any = None, *, most: int, longest: int) -> Mapping[str, int]:
        asked = (column, where, most, longest)
        if asked not in self._texts:
            self._texts[asked] = self._table.occurring(column, where, most=most, longest=longest)
        return self._texts[asked]

    @contextmanager
    def declaring(self, column: str, values: Sequence[str]) -> Iterator[SummedTable]:
        asked = (column, *values)
        if asked not in self._declared:
            self._declared[asked] = SummedTable(self._frame, self.schema.declaring(column, values))
        yield self._declared[asked]

    def batches(self, columns: Sequence[str], where: Any = None, *, rows: int = 65_536) -> Any:
        asked = (*columns, where, rows)
        if asked not in self._rows:
            self._rows[asked] = list(self._table.batches(columns, where, rows=rows))
        return iter(self._rows[asked])


def cases() -> list[Case]:
    """List every statistic, wherever its noise is added, attacked by samples and by the noise itself. Noise for one row
    of a person who has three, and for one level of counts where a row counts in each, must be caught."""
    made: list[Case] = []
    for name, (fields, mine) in QUESTIONS.items():
        tables = neighbours(mine)
        for noise, seen in (("site", _sent), ("coordinator", _told)):
            document = document_of(name, fields, noise)
            one, other = (repeatedly(partial(seen, document, table)) for table in tables)
            title = f"query: {name}, noise at the {noise}"
            draws = 1000 if noise == "site" else 300
            made.append(Audited(title, 1.0, document.delta, ADD, one, other, draws=draws))
            made.append(sites.drawn(title, document, tables, used=0.99))
        if name in _SPLIT:
            document = document_of(name, fields, "split")
            one, other = (repeatedly(partial(_left, document, table)) for table in tables)
            title = f"query: {name}, what the coordinator learns where noise is split"
            made.append(Audited(title, 1.0, 0.0, ADD, one, other, draws=1000))
    return [*made, *_found(), *_joined(), *_broken()]


def _found() -> list[Case]:
    """List both phases of groups that nobody declared, each at half of the price: who comes has three keys, of which
    two are nobody else's, and a third that as many have as the threshold says. Exact odds judge the threshold; one for
    a single key of a person who counts with three must be caught."""
    document = KIND.check({**_FINDING, "max_groups_per_person": ROWS})
    selection = found_keys.selection_of(document, _OPEN)
    others = pd.DataFrame({"who": [f"o{n}" for n in range(selection.least - 1)], "x": 0.0, "g": "many"})
    mine = pd.DataFrame({"who": ["me"] * ROWS, "x": 10.0, "g": ["mine", "many", "own"]})
    tables = [SummedTable(pd.concat([others, *rows], ignore_index=True), _OPEN) for rows in ([mine], [])]
    made: list[Case] = []
    epsilon, delta = document.epsilon / 2, document.delta / 2
    for phase, name in ((found_keys.FINDING, "groups found"), (found_keys.ANSWERING, "groups found, answered")):
        one, other = (repeatedly(partial(_of_phase, document, phase, table)) for table in tables)
        made.append(Audited(f"query: {name}", epsilon, delta, ADD, one, other, draws=1000))
    narrow = KeySelection.calibrated(epsilon=epsilon, delta=delta, keys=1)
    mixed, own = ([1, 1, selection.least], [0, 0, selection.least - 1]), ([1, 1, 1], [0, 0, 0])
    for chosen, counts, control in ((selection, mixed, False), (selection, own, False), (narrow, own, True)):
        title = f"query: groups {'nobody else has' if counts is own else 'found'}, by their odds"
        title += ", for one key of three" if control else ""
        pmf, other_pmf = (_outcomes(chosen, each) for each in counts)
        made.append(Enumerated(title, epsilon, delta, ADD, pmf, other_pmf, positive_control=control))
    return made


class JoinedRows(SummedTable):
    """The joined rows of two frames, which are joined anew for each sum."""

    def __init__(self, rows: Sequence[pd.DataFrame]) -> None:
        self._joining = join(*_JOINED.items())
        super().__init__(rows[0], _JOINED["patients"])
        self.schema, self._both = self._joining.schema, rows

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        if wanted not in self._sums:
            with (
                TemporaryDirectory() as place,
                closing(given_join(self._joining, self._both, scratch=Path(place))) as table,
            ):
                self._sums[wanted] = table.sums(wanted)
        return self._sums[wanted]


def _joined() -> list[Case]:
    """List the sum of a column of joined rows: who comes has two rows in one data set and three in the other, so six
    together, and is in neither of the neighbours. Noise for the rows of one of the two must be caught."""
    document = KIND.check(_SUMMED)
    others = [pd.DataFrame({"who": ["p"], name: [0.0]}) for name in "xy"]
    mine = [pd.DataFrame({"who": ["me"] * most, name: [10.0] * most}) for name, most in (("x", 2), ("y", ROWS))]
    tables = [JoinedRows([pd.concat(each) for each in zip(others, mine, strict=True)]), JoinedRows(others)]
    one, other = (repeatedly(partial(_sent, document, table)) for table in tables)
    short, without = (_underestimated(document, table, ROWS) for table in tables)
    title, few = "query: sum of joined rows", "query: sum of joined rows, noise for those of one side"
    return [
        Audited(title, 1.0, 0.0, ADD, one, other, draws=1000),
        Audited(few, 1.0, 0.0, ADD, short, without, positive_control=True, draws=1_000_000),
    ]


def _outcomes(selection: KeySelection, people: Sequence[int]) -> dict[Hashable, float]:
    """Return the odds of every set of keys that is said, by how many people have each; nobody's is never said."""
    odds = [selection.odds(count) if count else 0.0 for count in people]
    return {
        said: math.prod(p if one else 1 - p for p, one in zip(odds, said, strict=True))
        for said in product((False, True), repeat=len(odds))
    }


def _of_phase(document: QueryDocument, phase: int, table: Table) -> list[float]:
    """All that one site sends in one of the two phases."""
    payload = {} if phase == found_keys.FINDING else {found_keys.KEYS: list(_KEYS)}
    ask = Ask("any", part_of(phase), phase, payload)
    given = registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=FAST)
    if phase == found_keys.FINDING:
        said = found_keys.read(given.fields)
        return [float(key in said) for key in _KEYS]
    totals: list[float] = given.fields[TOTALS][0].tolist()
    return totals


def _broken() -> list[Case]:
    document = document_of("count", {}, "split")
    one, other = (repeatedly(partial(_left, document, table, rows=1)) for table in neighbours(ALIKE))
    title = "query: count, noise of the helper for one row of a person with three"
    made: list[Case] = [Audited(title, 1.0, 0.0, ADD, one, other, positive_control=True)]
    for name, short in (("count by group", 1), ("quantile in levels", ROWS)):
        fields, mine = QUESTIONS[name]
        document = document_of(name, fields, "site")
        one, other = (_underestimated(document, table, short) for table in neighbours(mine))
        said = "one row of a person with three" if short == 1 else "one level of several"
        title = f"query: {name}, noise for {said}"
        made.append(Audited(title, 1.0, 0.0, ADD, one, other, positive_control=True, draws=1_000_000))
    return made


def neighbours(mine: pd.DataFrame) -> list[SummedTable]:
    """Return the tables with these rows of one person, and without."""
    return [SummedTable(pd.concat([OTHERS, *rows], ignore_index=True)) for rows in ([mine], [])]


def document_of(name: str, fields: dict[str, Any], noise: str) -> QueryDocument:
    body = {"type": "query", "dataset": "audited", "statistic": name, "epsilon": 1.0, "noise": noise, **fields}
    return KIND.check(body)


def _sent(document: QueryDocument, table: Table) -> list[float]:
    """All that one site sends."""
    ask = Ask("any", "phase-0", 0)
    given = registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=FAST)
    totals: list[float] = given.fields[TOTALS][0].tolist()
    return _telling(totals)


def _told(document: QueryDocument, table: Table) -> list[float]:
    """All that is told of one site's totals: the answer, and its error bar."""
    setting = Setting(unit=Unit.PERSON, randomness=FAST, simulated=True, sites={"s": table.schema})
    aggregator = registry.aggregator(document, setting)
    ask = aggregator.ask("s")
    assert isinstance(ask, Ask)  # noqa: S101
    aggregator.accept(registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=FAST))
    aggregator.advance(_NOON)
    release = aggregator.release()
    assert release is not None  # noqa: S101
    bar = release.interval(0.9)
    assert bar is not None  # noqa: S101
    values = list(release.value.values()) if isinstance(release.value, dict) else [release.value]
    return [*values, *np.atleast_1d(bar.low).tolist(), *np.atleast_1d(bar.high).tolist()]


def _left(document: QueryDocument, table: Table, *, rows: int = ROWS) -> list[float]:
    """All that a coordinator has of a site whose totals come in shares, where all others are its own: both shares' sum
    with the helper's noise, and none of its own. `rows` is how many of one person that noise is for."""
    key, schema = SealingKey.generate(), table.schema
    ask = Ask("any", "phase-0", 0, shares.payload_of(key))
    owner = registry.site_owner(document, simulated=True)
    given = owner.contribute(document, ask, table, RecordedClaim(), randomness=FAST).fields
    told: dict[str, Any] = {
        "size": document.plan(schema).size,
        "schema": schema,
        "noised_for": _with_rows(schema, rows),
    }
    return _telling(shares.left(document, ask, given, **told, key=key, randomness=FAST))


def _telling(totals: list[float]) -> list[float]:
    """Of very many counts those that the person is in, and as many others."""
    return totals if len(totals) <= 64 else [*totals[:2], totals[31], totals[63], totals[-1], sum(totals[:32])]


def _underestimated(document: QueryDocument, table: Table, rows: int) -> Draw:
    plan = document.plan(table.schema)
    held = _with_rows(table.schema, rows)
    noise = noise_for(plan, held, epsilon=1, delta=0)
    if isinstance(plan, QuantilePlan):  # one of the levels
        noise = replace(noise, drawn_scale=noise.drawn_scale / len(plan.counts.levels))
    totals = plan.totals(table)
    if isinstance(plan, QuantilePlan) and totals.size > 64:
        totals = totals[[plan.counts.levels[0] - 1, -1]]  # where the person is
    return lambda n: noise.add(np.tile(totals, (n, 1)), FAST).sum(axis=1)


def _with_rows(schema: Schema, rows: int) -> Schema:
    """The same schema with another number of rows of one person."""
    return schema.model_copy(update={"max_rows_per_unit": rows})

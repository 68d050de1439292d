"""The rule by which a growing data set is cut into blocks: by time, by user, by a public attribute.

What must stay true: which block a row belongs to follows from that row alone, and so does nothing about which blocks
there are, beyond what a steward declares to be public.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from thebes.data.connectors.scanned_source import quoted, text
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

TIME, USER, ATTRIBUTE = "time", "user", "attribute"
MOST_USERS = 1_000_000  #: in one block
_MICROSECONDS = 3_600_000_000  # of an hour
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONDAY = 4 * 24  # hours from then to the first Monday
_NAMING, _NAMED = r"[\w .:-]{1,100}", "1 to 100 letters, digits, spaces or . : - _"
_HOURS = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True, slots=True)
class BlockBy:
    """One way of cutting. Every block has a `place`, a whole number that says where it lies among the others: the
    number of its window, of its users, or of its value."""

    kind: str
    hours: int = 0  #: of a window
    users: int = 0  #: of a block, whose ids count up from 1
    column: str = ""  #: what the place is read from
    values: tuple[bool | int | float | str, ...] = ()
    apart: str = ""  #: a column by whose declared values blocks are cut further, each value's rows in blocks of its own
    contexts: tuple[bool | int | float | str, ...] = ()  #: these values
    first: int | None = None  #: the window from which on there are blocks, whatever rows come; None: that of the rows

    def __str__(self) -> str:
        if self.kind == TIME:
            return f"time:{self.hours // 24}d" if self.hours % 24 == 0 else f"time:{self.hours}h"
        if self.kind == USER:
            return "user" if self.users == 1 else f"user:{self.users}"
        return f"attribute:{self.column}"

    @property
    def sealed(self) -> bool:
        """True where blocks are closed to new rows before they are charged. A user's rows stay in the user's block."""
        return self.kind != USER

    def beginning(self, written: str) -> BlockBy:
        """The same with a declared first day or hour, so that which windows there are follows from the clock alone."""
        if self.kind != TIME:
            raise Mistake("blocks.since", "goes with blocks of time")
        try:
            moment = datetime.fromisoformat(written)
        except (ValueError, TypeError):
            raise Mistake("blocks.since", "must be a day or a moment such as 2026-01-31") from None
        if not _EPOCH.year <= moment.year <= 9000:
            raise Mistake("blocks.since", f"must lie after {_EPOCH.year}")
        return replace(self, first=self.window(moment))

    def apart_by(self, name: str, schema: Schema) -> BlockBy:
        """The same, cut further by the declared values of a column: a block has the rows of one context alone."""
        column = schema.columns.get(name)
        if column is None or column.values is None or column.type not in ("string", "integer", "boolean"):
            raise Mistake("blocks.separate_by", "must be developer or a column with declared values")
        if name == self.column:
            raise Mistake("blocks.separate_by", "names the column that blocks are cut by already")
        for value in column.values:
            if not re.fullmatch(_NAMING, _written(value)):
                raise Mistake("blocks.separate_by", f"needs values that can name blocks: {_NAMED}")
        return replace(self, apart=name, contexts=column.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the place is read from."""
        return (self.column, self.apart) if self.apart else (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        """The contexts as they are written; none where there are none."""
        return tuple(map(_written, self.contexts))

    @property
    def many(self) -> int:
        """The number of blocks that lie side by side in each window, or of each value."""
        return max(1, len(self.contexts))

    def context(self, place: int) -> str:
        """Return whose rows a block has; nothing where there are no contexts."""
        return self.names[place % self.many] if self.contexts else ""

    def places(self, first: int, end: int) -> range:
        """Those of all windows, or values, from one up to another that is not among them."""
        return range(first * self.many, end * self.many)

    def label(self, place: int, copy: int = 1) -> str:
        """A block's name within its data set."""
        again = "" if copy == 1 else f"+{copy}"
        return f"{self._labelled(place)}{again}" + (f"@{self.context(place)}" if self.contexts else "")

    def _labelled(self, place: int) -> str:
        if self.kind == TIME:
            since = self.since(place)
            return f"{since:%Y-%m-%d}" if self.hours % 24 == 0 else f"{since:%Y-%m-%dT%H}"
        if self.kind == USER:
            first = place * self.users + 1
            return f"user-{first}" if self.users == 1 else f"users-{first}-{first + self.users - 1}"
        return str(self.values[place // self.many])

    def since(self, place: int) -> datetime:
        """Return when a window begins."""
        return _EPOCH + timedelta(hours=place // self.many * self.hours + self._offset)

    def until(self, place: int) -> datetime:
        """Return when a window is over."""
        return self.since(place + self.many)

    def window(self, moment: datetime) -> int:
        """The number of the window that a moment lies in."""
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH - timedelta(hours=self._offset)) // timedelta(hours=self.hours)

    def place_sql(self) -> str:
        """A typed row's place; NULL where it has none."""
        if not self.contexts:
            return self._base_sql()
        return f"({self._base_sql()} * {self.many} + {self.context_sql()})"

    def context_sql(self) -> str:
        """The number of a typed row's context; NULL where it has none."""
        return _among(self.apart, self.contexts)

    def _base_sql(self) -> str:
        column = quoted(self.column)
        if self.kind == TIME:
            width = self.hours * _MICROSECONDS
            moment = f"(epoch_us({column}) - {self._offset * _MICROSECONDS})"
            return f"(({moment} - (({moment} % {width} + {width}) % {width})) // {width})"
        if self.kind == USER:
            return f"(CASE WHEN {column} >= 1 THEN ({column} - 1) // {self.users} END)"
        return _among(self.column, self.values)

    @property
    def _offset(self) -> int:
        return _MONDAY if self.hours % 168 == 0 else 0


def block_by(written: str, schema: Schema) -> BlockBy:
    """Read `time:1d`, `user`, `user:100` or `attribute:COLUMN`, or say why it does not go with the schema."""
    kind, _, rest = written.partition(":") if isinstance(written, str) else ("", "", "")
    if kind == TIME:
        return _by_time(rest, schema)
    if kind == USER:
        return _by_user(rest, schema)
    if kind == ATTRIBUTE:
        return _by_attribute(rest, schema)
    raise Mistake("blocks.by", "must be time:1d (or 6h, 2w), user, user:100 or attribute:COLUMN")


def _by_time(rest: str, schema: Schema) -> BlockBy:
    found = re.fullmatch(r"([1-9][0-9]{0,3})([hdw])", rest)
    if found is None:
        raise Mistake("blocks.by", "must say how long a block is, in hours, days or weeks: time:6h, time:1d, time:2w")
    hours = int(found[1]) * _HOURS[found[2]]
    if hours < 24 and 24 % hours:
        raise Mistake("blocks.by", "hours must divide a day, so that windows begin at midnight")
    if hours > 24 and hours % 24:
        raise Mistake("blocks.by", "more hours than a day has must be whole days")
    if schema.time is None or schema.columns[schema.time].type != "timestamp":
        raise Mistake("blocks.by", "blocks of time need a schema whose time names a column of type timestamp")
    if schema.unit != "event":
        raise Mistake(
            "blocks.by",
            'blocks of time protect single rows, because a person has rows in many of them: write unit = "event" in '
            "the schema, or use blocks of users",
        )
    return BlockBy(TIME, hours=hours, column=schema.time)


def _by_user(rest: str, schema: Schema) -> BlockBy:
    if rest and not re.fullmatch(r"[1-9][0-9]{0,6}", rest):
        raise Mistake("blocks.by", "must say how many users a block has: user, or user:100")
    users = int(rest or 1)
    if users > MOST_USERS:
        raise Mistake("blocks.by", f"a block has at most {MOST_USERS} users")
    if schema.unit != "person" or schema.key is None or schema.columns[schema.key].type != "integer":
        raise Mistake(
            "blocks.by",
            'blocks of users protect persons: they need unit = "person" and a key of type integer that counts up from '
            "1 (that it does is told to everybody)",
        )
    return BlockBy(USER, users=users, column=schema.key)


def _by_attribute(name: str, schema: Schema) -> BlockBy:
    column = schema.columns.get(name)
    if column is None or column.values is None or column.type not in ("string", "integer", "boolean"):
        raise Mistake(
            "blocks.by",
            "must name a column of texts, whole numbers or flags with declared values: which blocks there are must not "
            "follow from the rows",
        )
    if schema.unit != "event":
        raise Mistake(
            "blocks.by",
            "blocks by an attribute protect single rows, because a person may have rows of several values: write "
            'unit = "event" in the schema, or use blocks of users',
        )
    for value in column.values:
        if not re.fullmatch(_NAMING, _written(value)):
            raise Mistake("blocks.by", f"values that name blocks are {_NAMED}")
    return BlockBy(ATTRIBUTE, column=name, values=column.values)


def _among(column: str, values: tuple[object, ...]) -> str:
    """Write in SQL which of these values a typed row has; NULL where none."""
    known = ", ".join(f"{text(_written(value))}: {place}" for place, value in enumerate(values))
    return f"(MAP {{{known}}}[CAST({quoted(column)} AS VARCHAR)])"


def _written(value: object) -> str:
    """As DuckDB writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)

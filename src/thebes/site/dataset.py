"""A data set as its steward declared it: HOME/datasets/NAME.toml.

What must stay true: a file that cannot be read exactly as written is no data set; the budget in it is what its block
in the ledger was opened with, and changing the file changes no budget.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from thebes.curator.cache.planner import FRESH_SECONDS
from thebes.curator.cache.synopsis_kinds import DEFAULT, checked, synopsis_of
from thebes.curator.streams.terms import DEVELOPER, Terms
from thebes.data.connectors.connector import read_source
from thebes.data.growing.block_rule import USER, BlockBy, block_by
from thebes.data.growing.source import GrowingSource
from thebes.data.schema import Schema, schema_of
from thebes.database import private_files
from thebes.ledger.filters import BASIC, FILTERS, usual
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency, Unit
from thebes.site.home import SiteHome, stamp
from thebes.site.toml_text import entries, value_of
from thebes.tasks.site_document import DATASET_NAME

_SUFFIX = ".toml"
GROWING = "growing"  #: the kind of source whose rows lie in HOME/growing/NAME, in blocks
_PARTS = ("schema", "source", "budget", "public", "blocks", "cache")
SCHEDULES = ("even", "dpf", "dpack", "fcfs")  #: whose turn it is among pipelines that wait, see `curator.waiting`
OWN_SHARE = 0.1  #: of every block's budget, for what a synopsis is made of, unless the owner says otherwise
ALIKE = (100, 20, 10, 5, 2)  #: parts of a budget by which it is told how many answers it pays
_SHARES = ("size_share", "retire_below")
_TURNS = ("schedule", "fair", "lifetime")
_BLOCKS = ("by", "since", "size_share", "retire_below", "periods", "separate_by", "accept_separate_ledgers", *_TURNS)


@dataclass(frozen=True, slots=True)
class BudgetDeclaration:
    """The budget that everything ever asked about a data set may cost one unit together, and how that is added up."""

    epsilon: Decimal
    delta: Decimal = Decimal(0)
    filter: str = BASIC.name

    @classmethod
    def of(cls, epsilon: exact.Number, delta: exact.Number = 0, filter: str | None = None) -> BudgetDeclaration:
        """Read a budget: the filter is the usual one for its delta, unless one is named."""
        e, d = exact.epsilon(epsilon), exact.delta(delta)
        chosen = filter or usual(d).name
        if chosen not in FILTERS:
            raise Mistake("filter", f"must be one of {', '.join(FILTERS)}")
        return cls(e, d, chosen)

    @property
    def answers(self) -> dict[Decimal, int]:
        """Count the answers of some epsilons that a whole budget can pay, each if all are alike and pure."""
        filter_ = FILTERS[self.filter]
        whole = filter_.capacity(self.epsilon, self.delta)
        each = [share for part in ALIKE if (share := self.epsilon / part) >= exact.EPSILON_STEP]
        return {share.normalize(): filter_.pure_answers(whole, share) for share in each}


@dataclass(frozen=True, slots=True)
class BlockDeclaration:
    """The cut of a growing data set (`by`), and what is said of every block beside its budget."""

    by: BlockBy
    more: Mapping[str, Any] = field(default_factory=dict)

    def terms(self, budget: BudgetDeclaration) -> Terms:
        """Return what each block holds."""
        told = {name: value for name, value in self.more.items() if name not in ("since", *_TURNS)}
        accepted = told.pop("accept_separate_ledgers", False)
        separate = told.pop("separate_by", "")
        if self.schedule and separate:
            raise Mistake("blocks.schedule", "goes with blocks that are for everybody; leave separate_by out")
        if separate == DEVELOPER and accepted is not True:
            raise Mistake(
                "blocks.accept_separate_ledgers",
                "must be true with separate_by: the budget then holds for each of them by itself, and whoever joins "
                "what several were told may learn more",
            )
        if "periods" in told and self.by.kind != USER:
            raise Mistake("blocks.periods", "goes with blocks of users; others buy their size once")
        terms = Terms(budget.epsilon, budget.delta, budget.filter, **told)
        return replace(terms, separate=separate) if separate else terms

    @property
    def schedule(self) -> str:
        """The schedule of whose turn it is among pipelines that wait (see `curator.waiting`); nothing: whoever is
        first."""
        return str(self.more.get("schedule", ""))


@dataclass(frozen=True, slots=True)
class Cache:
    """The way in which released answers are used again. `fresh_for` is for how many seconds one is given again where
    the set does not grow: a time that everybody may know, never that the rows changed. `own_share` is how much of every
    block's budget may buy what a synopsis is made of, whoever asks. `more` is for the kinds with a synopsis."""

    kind: str = DEFAULT
    fresh_for: float = FRESH_SECONDS
    more: Mapping[str, Any] = field(default_factory=dict)
    own_share: float = OWN_SHARE

    def as_json(self) -> dict[str, Any]:
        own = {} if self.own_share == OWN_SHARE else {"own_share": self.own_share}
        return {"kind": self.kind, "fresh_for": _span(self.fresh_for), **own, **self.more}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A name, what its rows are, where they lie, and its budget: that of each block where it grows. `schema.public`
    lets it be answered without noise. One that has `joined` is made of these two for a question: its rows are theirs,
    and both pay."""

    name: str
    schema: Schema
    source: Mapping[str, Any]
    budget: BudgetDeclaration
    blocks: BlockDeclaration | None = None
    cache: Cache = field(default_factory=Cache)
    joined: tuple[DataSet, ...] = ()

    @property
    def paying(self) -> tuple[DataSet, ...]:
        """The data sets whose budgets an answer is charged to."""
        return self.joined or (self,)

    @property
    def stream_terms(self) -> Terms | None:
        """Of each of its blocks; None where it does not grow. A Mistake where they could never pay for their sizes."""
        if self.blocks is None:
            return None
        for column in self.schema.tensors:
            raise Mistake(
                f"columns.{column}.type",
                "is not for a data set that grows: its blocks hold single values; declare rows that lie where they are",
            )
        terms = self.blocks.terms(self.budget)
        terms.check(self.blocks.by)
        if terms.separate not in ("", DEVELOPER):
            self.blocks.by.apart_by(terms.separate, self.schema)
        return terms

    @property
    def terms(self) -> dict[str, Any]:
        """Of its block in the ledger."""
        return {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "filter": self.budget.filter,
            "unit": Unit(self.schema.unit),
            "adjacency": Adjacency.ADD_REMOVE_ONE,
        }

    def as_toml(self) -> str:
        body = self.schema.as_json()
        body.pop("public", None)
        body["columns"] = {name: {k: v for k, v in told.items() if v is not False and v != ""}
                           for name, told in body["columns"].items()}  # fmt: skip
        budget = {"epsilon": self.budget.epsilon, "delta": self.budget.delta, "filter": self.budget.filter}
        blocks = {} if self.blocks is None else {"blocks": {"by": str(self.blocks.by), **self.blocks.more}}
        head = [
            f"# The data set {self.name}: what its rows are, where they lie, what may be spent on it.",
            "# The budget is that of its block in ledger.db; changing it here makes the data set unusable, not larger.",
            f"public = {value_of(self.schema.public)}  # true: it may be answered without any noise",
        ]
        cache = {} if self.cache == Cache() else {"cache": self.cache.as_json()}
        tables = {"budget": budget, **cache, **blocks, "schema": body, "source": self.source}
        return "\n".join([*head, *entries(tables)]) + "\n"


@dataclass
class DataSets:
    """Every data set of a home, read anew when its file changes."""

    home: SiteHome
    _read: dict[str, tuple[Any, DataSet | Mistake]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Those that are declared, also where the file cannot be read."""
        found = (path.name.removesuffix(_SUFFIX) for path in self.home.datasets.glob(f"*{_SUFFIX}"))
        return sorted(filter(_is_name, found))

    def __contains__(self, name: object) -> bool:
        """Return whether one of that name is declared: one look, where `names` looks through the folder."""
        return isinstance(name, str) and _is_name(name) and path_of(self.home, name).exists()

    def get(self, name: str) -> DataSet | None:
        """The data set of that name; None where there is none, a Mistake where its file cannot be read."""
        path = path_of(self.home, name)
        now = stamp(path)
        if now is None:
            self._read.pop(name, None)
            return None
        known = self._read.get(name)
        if known is None or known[0] != now:
            known = self._read[name] = (now, _tried(path, name))
        if isinstance(known[1], Mistake):
            raise known[1]
        return known[1]

    def all(self) -> Iterator[DataSet]:
        """Those that can be read."""
        for name in self.names():
            try:
                found = self.get(name)
            except Mistake:
                continue
            if found is not None:
                yield found

    def keep(self, dataset: DataSet) -> None:
        """Write it down."""
        private_files.write(path_of(self.home, dataset.name), dataset.as_toml())


def _is_name(text: str) -> bool:
    return re.fullmatch(DATASET_NAME, text) is not None


def path_of(home: SiteHome, name: str) -> Path:
    """Its file; a name that cannot be one is a Mistake."""
    if not isinstance(name, str) or not _is_name(name):
        raise Mistake("NAME", "must be lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return home.datasets / f"{name}{_SUFFIX}"


def read(path: Path, name: str) -> DataSet:
    """The data set in a file, or a Mistake that names what is wrong in it."""
    where = path.name
    try:
        body = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except (OSError, UnicodeError) as error:
        raise Mistake(where, f"cannot be read: {type(error).__name__}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake(where, f"is not TOML: {str(error)[:200]}") from None
    for part in body:
        if part not in _PARTS:
            raise Mistake(f"{where}: {part[:40]}", f"is not one of {', '.join(_PARTS)}")
    for part in ("schema", "source", "budget"):
        if not isinstance(body.get(part), dict):
            raise Mistake(f"{where}: {part}", "must be a table")
    public, budget = body.get("public", False), body["budget"]
    if not isinstance(public, bool):
        raise Mistake(f"{where}: public", "must be true or false")
    unknown = [key for key in budget if key not in ("epsilon", "delta", "filter")]
    if unknown or "epsilon" not in budget:
        raise Mistake(f"{where}: budget", "must have epsilon, and may have delta and filter")
    if "public" in body["schema"]:
        raise Mistake(f"{where}: schema.public", "belongs at the top of the file, beside [schema]")
    try:
        schema = schema_of({**_floats(body["schema"]), "public": public})
        terms = BudgetDeclaration.of(_number(budget["epsilon"]), _number(budget.get("delta", 0)), budget.get("filter"))
    except Mistake as mistake:
        raise Mistake(f"{where}: {mistake.argument}", mistake.message) from None
    blocks = _blocks(body, schema, where)
    try:
        cache = cache_of(body.get("cache", {}), schema, terms, blocks)
        made = DataSet(name, schema, _floats(body["source"]), terms, blocks, cache)
        _ = made.stream_terms  # whether they can be had
        return made
    except Mistake as mistake:
        raise Mistake(f"{where}: {mistake.argument}", mistake.message) from None


def cache_of(told: object, schema: Schema, budget: BudgetDeclaration, blocks: BlockDeclaration | None = None) -> Cache:
    """Read how answers are used again, as it was declared, or raise a Mistake that names the parameter at fault."""
    if not isinstance(told, Mapping):
        raise Mistake("cache", "must be a table")
    more = {name: _floats(value) for name, value in told.items() if name not in ("kind", "fresh_for", "own_share")}
    own = _floats(told.get("own_share", OWN_SHARE))
    if isinstance(own, bool) or not isinstance(own, (int, float)) or not 0 <= own <= 1:
        raise Mistake("cache.own_share", "must be a number from 0 to 1")
    kind = checked(told.get("kind", DEFAULT))
    if synopsis_of(kind, schema, more, filter=budget.filter) is not None and blocks is not None:
        if blocks.more.get("separate_by"):
            raise Mistake("cache.kind", "must be none or exact where budgets are separate: a synopsis would join them")
        if blocks.by.kind == USER:
            raise Mistake("cache.kind", "must be none or exact over blocks of users, whose rows may still change")
    return Cache(kind, span(told["fresh_for"]) if "fresh_for" in told else FRESH_SECONDS, more, float(own))


_SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def span(told: object, argument: str = "cache.fresh_for") -> float:
    """Read a span of time such as 12h, in seconds."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", told) if isinstance(told, str) else None
    if found is None:
        raise Mistake(argument, "must be a span of time such as 30m, 12h or 1d")
    return float(int(found[1]) * _SPANS[found[2]])


def _span(seconds: float) -> str:
    """The inverse of `span`."""
    unit = next((unit for unit in ("d", "h", "m") if seconds and seconds % _SPANS[unit] == 0), "s")
    return f"{seconds / _SPANS[unit]:.0f}{unit}"


def _blocks(body: Mapping[str, Any], schema: Schema, where: str) -> BlockDeclaration | None:
    """Read how a growing data set is cut; None where it does not grow."""
    told = body.get("blocks")
    growing = body["source"].get("kind") == GROWING
    if told is None and not growing:
        return None
    if not isinstance(told, dict) or not growing:
        raise Mistake(f"{where}: blocks", f'goes with [source] kind = "{GROWING}", which needs it')
    for key, value in told.items():
        if key not in _BLOCKS:
            raise Mistake(f"{where}: blocks.{key[:40]}", f"is not one of {', '.join(_BLOCKS)}")
        texts = {"by": str, "since": str, "separate_by": str, "schedule": str, "lifetime": str}
        wanted = {**texts, "accept_separate_ledgers": bool, "periods": int, "fair": int}.get(key)
        if wanted is None and isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        if type(value) is not (wanted or Decimal):
            raise Mistake(f"{where}: blocks.{key}", "is not of the right type")
        if key == "schedule" and value not in SCHEDULES:
            raise Mistake(f"{where}: blocks.schedule", f"must be one of {', '.join(SCHEDULES)}")
    check_turns(told, f"{where}: blocks.")
    try:
        read_source(GrowingSource, body["source"])
        by = block_by(told.get("by", ""), schema)
        by = by.beginning(told["since"]) if "since" in told else by
    except Mistake as mistake:
        raise Mistake(f"{where}: {mistake.argument}", mistake.message) from None
    return BlockDeclaration(by, {key: Decimal(v) if key in _SHARES else v for key, v in told.items() if key != "by"})


def check_turns(told: Mapping[str, Any], said: str) -> None:
    """Refuse a schedule's parts that cannot be; `said` stands before the name of each."""
    for name in ("fair", "lifetime"):
        if name in told and told.get("schedule") != "dpf":
            raise Mistake(f"{said}{name}", 'goes with the schedule "dpf"; leave it out')
    if not 1 <= told.get("fair", 1) <= 1_000_000:
        raise Mistake(f"{said}fair", "must be from 1 to 1,000,000")
    if "lifetime" in told and not span(told["lifetime"], f"{said}lifetime"):
        raise Mistake(f"{said}lifetime", "must be longer than 0")


def _tried(path: Path, name: str) -> DataSet | Mistake:
    try:
        return read(path, name)
    except Mistake as mistake:
        return mistake


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise Mistake("budget", "must hold numbers")
    return Decimal(value)


def _floats(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _floats(inner) for name, inner in value.items()}
    return [_floats(inner) for inner in value] if isinstance(value, list) else value

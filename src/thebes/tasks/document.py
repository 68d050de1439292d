"""The document: what a requestor asks for, immutable and known by its digest.

Every kind adds its own fields to these. Reading is strict: an unknown or wrong field is refused by name, and no
refusal repeats a value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from thebes.data import featurizer as sql
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.promise import Unit
from thebes.tasks.checked_documents import CheckedDocuments, text_of
from thebes.tasks.document_problems import problems

LEAST_EPSILON = 1e-6  #: below, every answer is noise alone, and wider than 64 bits hold
LEAST_DELTA = 1e-15  #: below, noise on a grid that 64 bits hold cannot keep the promise; 0 is always possible
SERVER_FLOOR = 11  #: the least min_count a coordinator accepts unless its operator says otherwise
MOST_TIMES = 1_000_000
FARTHEST = 1e100  #: no range may reach further, so that squares of its values are still numbers
NARROWEST = 1e-9  #: nor be narrower than this share of its values, so that floats tell its steps apart
GROUP_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"  #: of groups and epochs, as they stand in addresses
FAILURE = "failure"  #: the field of a contribution that holds the class of a featurizer's failure


class InvalidDocument(Mistake):
    """A document that cannot work. `problems` lists every (field, what is wrong)."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        field, message = problems[0]
        others = "; ".join(f"{other} {why}" for other, why in problems[1:])
        more = f" (and {len(problems) - 1} more: {others})" if others else ""
        super().__init__(field, message + more)

    def __reduce__(self) -> Any:
        return (type(self), (self.problems,))


def rule(field: str, message: str) -> PydanticCustomError:
    """Make the error that a validator raises when fields do not fit together: it names the one to change."""
    return PydanticCustomError("rule", "{message}", {"field": field, "message": message})


_ACCEPTED_EARLIER: ContextVar[bool] = ContextVar("accepted_earlier", default=False)


@contextmanager
def rules_for_new_documents_rest() -> Iterator[None]:
    """Within, rules that only say what may be asked from now on refuse nothing: what was accepted under an older
    version stays what it was."""
    token = _ACCEPTED_EARLIER.set(True)
    try:
        yield
    finally:
        _ACCEPTED_EARLIER.reset(token)


def is_new() -> bool:
    """Return whether the document that is being read would be accepted now, rather than read again."""
    return not _ACCEPTED_EARLIER.get()


def named(text: str) -> str:
    """A name out of a document as a message shows it: documents are public, but may be long."""
    return repr(text if len(text) <= 40 else text[:40] + "...")


class Strict(BaseModel):
    """A part of a document: frozen, and nothing unknown or of another type is taken."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)


Scalar = bool | int | float | str


class Range(Strict):
    """Numbers from `low` to `high`; a value outside counts as the nearer end."""

    type: Literal["range"] = "range"
    low: float
    high: float
    default: float | None = None  #: replaces a missing value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise rule("low", "must be smaller than high")
        if self.farthest > FARTHEST or self.high - self.low < max(1 / FARTHEST, NARROWEST * abs(self.middle)):
            raise rule("low", f"and high must lie within {figure(FARTHEST)} of 0, and not too close together")
        if self.default is not None and not self.low <= self.default <= self.high:
            raise rule("default", "must lie between low and high")
        return self

    @property
    def farthest(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def middle(self) -> float:
        return self.low + (self.high - self.low) / 2


class Values(Strict):
    """One of the declared `values`; anything else counts as missing."""

    type: Literal["set"] = "set"
    values: tuple[Scalar, ...] = Field(min_length=2, max_length=10_000)
    default: Scalar | None = None  #: replaces a missing value

    @field_validator("values", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.values)) != len(self.values) or len({str(v) for v in self.values}) != len(self.values):
            raise rule("values", "must differ from each other, also when they are written as text")
        if self.default is not None and self.default not in self.values:
            raise rule("default", "must be one of the values")
        return self


Bound = Annotated[Range | Values, Field(discriminator="type")]
Bounds = dict[str, Bound]


def bounds_as_json(bounds: Bounds) -> dict[str, Any]:
    """Return what bounds say, as a certificate does."""
    return {column: bound.model_dump(mode="json", exclude_none=True) for column, bound in bounds.items()}


class Document(Strict):
    """The fields every kind has. `epsilon` and `delta` are one contributor's total for the whole document."""

    #: other spellings that are accepted on reading
    ALIASES: ClassVar[Mapping[str, str]] = {"min_sample_size": "min_count"}
    #: whether it is trained for as long as it is open. What it asks then is a model of this moment: it is to be
    #: answered soon, and what was mixed in cannot be taken back
    endless: ClassVar[bool] = False
    #: what a document that is written now says where its author left it out. One that was accepted or posted without it
    #: means what it meant before there was the field, and has the digest that it had
    WRITTEN_NOW: ClassVar[Mapping[str, Any]] = {}

    type: str
    version: Literal[1] = 1
    name: str | None = Field(default=None, max_length=200)
    purpose: str | None = Field(default=None, max_length=2000)
    contact: str | None = Field(default=None, max_length=200)
    epsilon: float = Field(ge=LEAST_EPSILON, le=1e6)
    delta: float = Field(default=0.0, ge=0, lt=1)
    expires_at: str | None = None

    @field_validator("delta")
    @classmethod
    def _usable(cls, value: float) -> float:
        if 0 < value < LEAST_DELTA:
            raise ValueError(f"must be 0 or at least {figure(LEAST_DELTA)}")
        return value

    @field_validator("expires_at")
    @classmethod
    def _moment(cls, value: str | None) -> str | None:
        try:
            zoned = value is None or datetime.fromisoformat(value).tzinfo is not None
        except ValueError:
            zoned = False
        if not zoned:
            raise ValueError("must be a moment with a time zone, for example 2027-01-31T12:00:00+00:00")
        return value

    @property
    def deadline(self) -> datetime | None:
        return None if self.expires_at is None else datetime.fromisoformat(self.expires_at)

    @classmethod
    def completed(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Write in what follows from the rest of a document before it is checked."""
        return dict(plain)

    def as_json(self) -> dict[str, Any]:
        """The document after aliases and defaults: what the digest covers and what everybody is shown."""
        return self.model_dump(mode="json", exclude_none=True)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the RFC 8785 form."""
        import rfc8785

        return hashlib.sha256(rfc8785.dumps(self.as_json())).hexdigest()


STATED = ("purpose", "contact", "expires_at")  #: by which a document says what for, whom to ask and until when


class PeopleDocument(Document):
    """A document that people answer from their own stores."""

    #: whom contributors trust: one server, at least one of two, or nobody
    server: Literal["trusted", "split", "untrusted"]
    min_count: int = Field(default=SERVER_FLOOR, ge=1, le=MOST_TIMES * 1000)
    max_count: int | None = Field(default=None, ge=1, le=MOST_TIMES * 1000)
    group: str | None = Field(default=None, pattern=GROUP_NAME)
    epoch: str | None = Field(default=None, pattern=GROUP_NAME)  #: of the group; a coordinator fills in the newest
    anonymity: Literal["none", "token"] = "none"
    diagnostics: float | None = Field(default=None, gt=0, le=0.5)
    featurizer: str
    bounds: Bounds | None = None
    #: a simulation may rest on defaults alone, where nobody has a value of their own in some column
    default_is_meant: bool | None = None

    @field_validator("featurizer")
    @classmethod
    def _readable(cls, value: str) -> str:
        try:
            sql.read(value)
        except Mistake as refused:
            raise ValueError(refused.message) from None
        return value

    def texts(self) -> tuple[str, ...]:
        """Return the columns whose values are texts of no declared set; a kind that has such says which."""
        return ()

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if self.max_count is not None and self.max_count < self.min_count:
            raise rule("max_count", "must not be smaller than min_count")
        if self.anonymity == "token" and self.group is None:
            raise rule("group", "is needed with tokens: name the group whose members may answer")
        if self.anonymity != "token" and self.group is not None:
            raise rule("group", 'only means something with "anonymity": "token"; add that, or leave it out')
        if self.epoch is not None and self.group is None:
            raise rule("epoch", "is the epoch of a group: name the group too")
        if self.diagnostics is not None and FAILURE in self.gives:
            raise rule("featurizer", f"may not give a column named {FAILURE!r} where diagnostics are asked for")
        for column in self.bounds or {}:
            if column not in self.gives:
                raise rule("bounds", f"names {named(column)}, which the featurizer does not give")
        return self

    def possible(self, contributors: int | None) -> tuple[float, float] | None:
        """Return the ends between which a number lies that is made of so many contributions, whatever they are; None
        where that is not known. A kind whose answers are numbers says which."""
        return None

    @property
    def stated(self) -> bool:
        """Return whether it says what for, whom to ask and until when."""
        return all(getattr(self, field) for field in STATED)

    @property
    def unit(self) -> Unit:
        """The unit whose contribution admission tells from others': with a token one human, on the word of the group's
        authority; without, one device."""
        return Unit.PERSON if self.anonymity == "token" else Unit.DEVICE

    @property
    def phases(self) -> int:
        """The number of phases the task has, one after another."""
        return 1

    @property
    def participations(self) -> int:
        """The number of times one owner takes part, over all phases; `epsilon` is shared over these."""
        return 1

    def packets(self, phase: int) -> int:
        """Return how many contributions one participation in that phase sends, under one claim.

        Each is a part of its own.
        """
        return 1

    def turns(self, phase: int) -> int:
        """Return how many participations of one owner the same phase takes, each with its own claim and parts."""
        return 1

    def least_in(self, phase: int) -> int:
        """Return how many contributions to each of its parts a phase needs."""
        return self.min_count

    def wanted_in(self, phase: int) -> int:
        """Return how many contributions to each of its parts close a phase before the deadline."""
        return self.max_count or self.min_count

    @property
    def only_simulated(self) -> str | None:
        """The field that makes this a document for simulations only: no coordinator and no person takes it."""
        return None

    @property
    def only_simulated_because(self) -> str:
        """Say of that field why."""
        return "adds no noise and protects nobody: NOT PRIVATE, for simulations only"

    @property
    def most_rows(self) -> int:
        """The number of one owner's rows that are read; the first ones in insertion order."""
        return 1

    @property
    def gives(self) -> tuple[str, ...]:
        """The names of the columns that the featurizer gives."""
        return sql.read(self.featurizer).outputs

    @property
    def reads(self) -> dict[str, tuple[str, ...]]:
        """The tables and columns the featurizer touches."""
        return sql.read(self.featurizer).tables


def not_bought(document: PeopleDocument) -> list[str]:
    """Say what nobody can tell of an answer that was not paid for: how many values of their own people had."""
    defaults = [c for c, bound in (document.bounds or {}).items() if bound.default is not None]
    ranges = [c for c, bound in (document.bounds or {}).items() if isinstance(bound, Range)]
    unknown = [f"replaced by a default ({', '.join(defaults)})"] if defaults else []
    unknown += [f"cut to their bounds ({', '.join(ranges)})"] if ranges else []
    if not unknown:
        return []
    return [
        f"It was not measured how many values were {' or '.join(unknown)}, so nobody knows; error bars are about the "
        "values as they were counted."
    ]


def raw(document: object, aliases: Mapping[str, str] = Document.ALIASES) -> dict[str, Any]:
    """A document as a plain object with aliases resolved; depth and keys are checked before anything else."""
    if isinstance(document, Document):
        return document.as_json()
    if not isinstance(document, Mapping):
        raise InvalidDocument([("document", "must be a JSON object")])
    plain = dict(document)
    if not all(isinstance(key, str) for key in plain):
        raise InvalidDocument([("document", "every field name must be text")])
    for alias, name in aliases.items():
        if alias in plain:
            if name in plain:
                raise InvalidDocument([(alias, f"is another spelling of {name}; give one of them")])
            plain[name] = plain.pop(alias)
    return plain


DocumentType = TypeVar("DocumentType", bound=Document)
_CHECKED = CheckedDocuments()


def read_as(model: type[DocumentType], document: object) -> DocumentType:
    """Read a document as `model`, or refuse it naming every field at fault. It is read once: from then on the same one
    is found again, by what was read and by its own JSON."""
    plain, new = raw(document, model.ALIASES), is_new()
    text = text_of(plain)
    known = _CHECKED.find(text, model, new=new)
    if known is not None:
        return known
    said = "cannot be read as this type of task"  # by a mistake of a validator itself, which its cause names
    try:
        parsed = model.model_validate(model.completed(plain))
        said = "has a number or text without a canonical JSON form"
        assert parsed.digest  # noqa: S101
    except ValidationError as error:
        raise InvalidDocument(problems(error, model.model_fields)) from None
    except RecursionError:
        raise InvalidDocument([("document", "is nested too deeply")]) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidDocument([("document", said)]) from error
    if parsed.epsilon:  # 0 only where a kind has documents without noise
        exact.epsilon(parsed.epsilon)
    for written in {text, text_of(parsed.as_json())}:
        _CHECKED.keep(written, parsed, new=new)
    return parsed

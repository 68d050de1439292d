"""The form in which a task is composed: what a kind says of it beside the schema of its document.

A field that nobody says anything about is drawn from the schema alone: required ones plainly, the others for experts.
What must stay true: a hint changes how something is asked, never what a document may hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, wraps
from typing import Any, Literal, Protocol

from thebes.tasks.kind_failure import KindFailed, guarded

Place = Literal["answer", "data", "trust", "price", "asker"]
PLACES: tuple[Place, ...] = ("answer", "data", "trust", "price", "asker")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


class FormState(Protocol):
    """The state of a form just now."""

    def get(self, name: str) -> str:
        """Return what stands in a field; of a choice, the part that is chosen."""
        ...

    @property
    def given(self) -> Sequence[str]:
        """The columns that the SQL gives, or that the sites declare."""
        ...

    @property
    def numbers(self) -> Sequence[str]:
        """Of those, the ones with a range, and new ones."""
        ...

    @property
    def keys(self) -> Sequence[str]:
        """Of those, the ones with declared values."""
        ...

    @property
    def tensors(self) -> Sequence[str]:
        """Of those, the ones of pictures and arrays."""
        ...

    @property
    def filled(self) -> Sequence[str]:
        """Of those, the ones where a default stands for a missing value."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """The way in which one field is asked. A field of a part is named with its path, such as `stop.rounds`."""

    label: str = ""
    help: str = ""
    place: Place = "answer"  #: the section of the form
    expert: bool = False  #: behind a summary
    wide: bool = False
    lines: int = 0  #: of the place to write in; by its schema, where nothing is said
    kind: str = ""  #: of the input, where text will not do
    first: str = ""  #: what stands there at first
    empty: str = ""  #: words for choosing nothing
    told: Mapping[str, str] | None = None  #: words for each choice that is offered
    #: what may be chosen just now; of a field with choices of its own, no other
    choices: Callable[[FormState], Iterable[str]] | None = None
    #: the columns that may be chosen just now
    columns: Callable[[FormState], Iterable[str]] | None = None
    but: str = ""  #: of several columns: not those of this field
    rest: bool = False  #: of several columns: none chosen are all
    when: Callable[[FormState], bool] | None = None  #: else it means nothing and is left out
    derived: bool = False  #: where it means nothing it follows from others, and is not kept
    reads: Callable[[str], Any] | None = None  #: what was typed, as a value; ValueError says what it must be
    writes: Callable[[Any], str] | None = None  #: the inverse; ValueError where there is none

    def over(self, other: Hint) -> Hint:
        """Return the other hint with all that this one says."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(other, **{f.name: said[f.name] for f in fields(self) if said[f.name] != f.default})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChoice:
    """A choice between parts of a document of which it has one. No document has a field of its name."""

    label: str
    #: the path of each part, by what is chosen; empty where it has none. The first is chosen at first
    parts: Mapping[str, str]
    told: Mapping[str, str]
    when: Callable[[FormState], bool] | None = None  #: else the first is chosen
    place: Place = "answer"
    #: fields that follow from what is chosen, and are asked nowhere else
    fixes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)  #: why something cannot be chosen that other kinds offer


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """The form of a kind: hints by field, in the order in which they are asked."""

    fields: Mapping[str, Hint | PartChoice] = field(default_factory=dict)
    rank: int = 100  #: its place among the kinds; the least comes first
    one_site: bool = False
    #: columns that the document itself makes, as far as that can be read
    makes: Callable[[FormState], Iterable[str]] = lambda composed: ()
    #: what the kind's own fields mean, by name, where the help of a hint is not all; for the reference, and for fields
    #: of the form that have no other help
    meanings: Mapping[str, str] = field(default_factory=dict)
    #: what is allowed but may not be meant, as (field, words); of a checked document, by the published types of the
    #: columns that it gives
    cautions: Callable[[Any, Mapping[str, str]], Iterable[tuple[str, str]]] = lambda document, types: ()


def wrong(hint: object) -> str:
    """Say why a hint cannot be drawn; nothing where it can."""
    if isinstance(hint, PartChoice):
        drawable = hint.parts and hint.parts.keys() == hint.told.keys()
        return "" if drawable else "must have parts, each with words in told"
    if not isinstance(hint, Hint):
        return f"must be a Hint or a PartChoice, and is of type {type(hint).__name__}"
    if hint.place not in PLACES:
        return f"must have as place one of {', '.join(PLACES)}"
    plain = {each.name: type(each.default) for each in fields(hint) if each.default is not None}
    for name, wanted in {**plain, **({} if hint.told is None else {"told": Mapping})}.items():
        if not isinstance(getattr(hint, name), wanted):
            return f"must have {wanted.__name__} as {name}, not {type(getattr(hint, name)).__name__}"
    return ""


def _words(given: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, given))


#: the functions of a form and its hints: what reads what each gives, and what stands where it fails
_FUNCTIONS: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "when": (bool, True),
    **dict.fromkeys(("choices", "columns", "makes"), (_words, ())),
    "cautions": (lambda given: tuple((str(name), str(words)) for name, words in given), ()),
}


@lru_cache(maxsize=256)
def safe(form: Form, type_: str) -> Form:
    """Return a kind's form whose functions never fail: where one would, that is logged, and nothing is offered, made or
    said to be unmeant, and everything is asked. What its `reads` fails at is no value, and the problem says so; what
    its `writes` fails at is written as its schema says."""
    for name, hint in form.fields.items():
        if why := wrong(hint):
            raise KindFailed(type_, f"hint of {name}", why)
    asked = {name: replace(hint, **_safe(hint, type_, f"hint of {name}")) for name, hint in form.fields.items()}
    return replace(form, fields=asked, rank=int(form.rank), **_safe(form, type_, "form"))


def _safe(part: Hint | PartChoice | Form, type_: str, where: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in (*_FUNCTIONS, *_CONVERSIONS):
        if (function := getattr(part, name, None)) is not None:
            made[name] = (_unfailing if name in _FUNCTIONS else _converting)(function, type_, where, name)
    return made


def _unfailing(function: Callable[..., Any], type_: str, where: str, name: str) -> Callable[..., Any]:
    reads, instead = _FUNCTIONS[name]

    @wraps(function)
    def call(*given: Any) -> Any:
        try:
            with guarded(type_, f"{where}, {name}", may=()):
                return reads(function(*given))
        except KindFailed:
            return instead

    return call


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


#: the functions that may refuse, with a ValueError: what each must give
_CONVERSIONS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "reads": (_is_json, "JSON"),
    "writes": (lambda value: isinstance(value, str), "str"),
}


def _converting(function: Callable[[Any], Any], type_: str, where: str, name: str) -> Callable[[Any], Any]:
    fits, wanted = _CONVERSIONS[name]

    @wraps(function)
    def call(given: Any) -> Any:
        try:
            with guarded(type_, f"{where}, {name}", may=(ValueError,)):
                made = function(given)
            if not fits(made):
                raise KindFailed(type_, f"{where}, {name}", f"returned {type(made).__name__} instead of {wanted}")
        except KindFailed as failed:
            raise ValueError(str(failed)) from None
        return made

    return call


def _moment(written: str) -> str:
    """A moment as browsers write one, which is meant in UTC."""
    if not _MOMENT.fullmatch(written):
        return written
    return f"{written}{'' if written.count(':') > 1 else ':00'}+00:00"


#: how the fields are asked that every document has
EVERYWHERE: Mapping[str, Hint] = {
    "epsilon": Hint(help="the whole price for one contributor", place="price", first="1"),
    "delta": Hint(help="0 if empty: only pure guarantees", place="price"),
    "mixed.epsilon": Hint(
        label="Epsilon of mixed answers",
        help="of whoever sees the collected answers and cannot tell whose is whose; needs a group's tokens, and people "
        "whose machines send through a proxy. Leave the price below empty, and the largest that keeps this is found",
        place="trust",
    ),
    "mixed.delta": Hint(label="Delta of mixed answers", help="0.000001 if empty, or less", place="trust", expert=True),
    "mixed.colluding": Hint(
        label="Share of others who may collude",
        help="0.5 if empty. Who breaks the rules or does not exist, and every machine without a proxy: where hardly "
        "anybody has one, say so here",
        place="trust",
        expert=True,
    ),
    "mixed.delay_seconds": Hint(
        label="Longest wait before an answer leaves",
        help="the same for everybody; 120 seconds if empty",
        place="trust",
        expert=True,
    ),
    "helper": Hint(
        label="The second server",
        help="the site of another institution, which helps where its policy says so. Say below until when people can "
        "answer",
        place="trust",
    ),
    "helper_key": Hint(
        label="Fingerprint of the second server",
        help="if empty, what the site itself says is filled in; people look it up where its institution publishes it",
        place="trust",
        expert=True,
        when=lambda form: form.get("trust") == "split",
    ),
    "min_count": Hint(label="People needed", help="nothing is released with fewer", place="price", first="100"),
    "max_count": Hint(
        label="People at most",
        help="if empty it closes at the number needed; what keeps learning goes on until you end it",
        place="price",
    ),
    "noise": Hint(
        place="price",
        wide=True,
        told={
            "site": "at each site, before anything leaves it",
            "coordinator": "once, here: less noise, but this server sees exact totals, and sites may refuse",
            "split": "once here and once at a helper: 1.4 times that error, but neither sees a total; three sites"
            " at least",
        },
    ),
    "min_sites": Hint(label="Sites needed", help="if empty one, or three where noise is split", place="price"),
    "patience": Hint(label="Seconds a site may take", help="then the rest goes on without it", place="price"),
    "expires_at": Hint(
        label="Expires",
        help="in UTC; leave empty for never",
        place="price",
        kind="datetime-local",
        reads=_moment,
        writes=lambda value: str(value).removesuffix("+00:00"),
    ),
    "diagnostics": Hint(
        label="Share for failures",
        help="of the price, to count why people could not answer; not counted if empty",
        place="price",
        expert=True,
    ),
    "default_is_meant": Hint(
        label="Defaults alone will do", help="a simulation may rest on defaults", place="price", expert=True
    ),
    "name": Hint(help="a few words that people see in their list", place="asker", wide=True),
    "purpose": Hint(
        help="what you will use the answer for, in words that everybody understands", place="asker", lines=3
    ),
    "contact": Hint(help="how people reach you with a question: a mail address, a page", place="asker", wide=True),
}

#: which column is predicted, of those that the SQL gives
PREDICTED = Hint(
    label="Predicted column",
    help="from all the others",
    place="data",
    columns=lambda composed: composed.given,
    empty="choose one",
)

#: whether people of their own check the model: more people than the task needs without, so only if that is asked for
CHECKED = Hint(
    label="Check the model",
    help="true: about a tenth of the people say, changed at random, whether it does better than one guess for all, "
    "instead of sending what it is made from; it costs nobody more. Leave out the largest number of people then",
    empty="nobody is asked to",
)

#: which rows of a data set count
WHERE = Hint(
    label="Only rows where",
    help="a condition such as sex = 'female' AND age >= 40; all if empty",
    place="data",
    wide=True,
    lines=1,
)


def _in_shares(composed: FormState) -> bool:
    return composed.get("noise") == "split"


#: the second server of sites whose noise is split
HELPED: dict[str, Hint] = {
    "helper": Hint(
        label="Helper",
        help="the second server: a site of another institution, which gives no rows to this",
        place="price",
        when=_in_shares,
    ),
    "helper_key": Hint(
        label="Its fingerprint",
        help="64 characters; this coordinator asks it if empty",
        place="price",
        expert=True,
        when=_in_shares,
    ),
}


def predicting(output: str) -> dict[str, Hint]:
    """Ask which column is predicted (`output`) and from which, of those that the SQL gives."""
    inputs = Hint(
        help="all the others if none is ticked",
        place="data",
        columns=lambda composed: composed.given,
        but=output,
        rest=True,
        expert=True,
    )
    return {output: PREDICTED, "inputs": inputs}

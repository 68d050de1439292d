"""A document that institutions answer: each over its own rows, by its own policy and from its own ledger."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from thebes.data.schema import Column, Schema
from thebes.privacy.accounting.odds import large_delta
from thebes.privacy.figures import figure, rounded_up
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.tasks.document import Document, rule

SITE_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"  #: as it stands in a certificate
DATASET_NAME = SITE_NAME
PATIENCE_SECONDS = 60.0
LOCAL = "local"  #: the site that is the coordinator's own


class SiteDocument(Document):
    """The fields of every kind that sites answer. `epsilon` is what one unit pays at each site that takes part:
    somebody whose rows lie at m sites pays m times."""

    SPLITS: ClassVar[bool] = False  #: whether totals may go to two servers in shares

    sites: Literal["all"] | tuple[Annotated[str, Field(pattern=SITE_NAME)], ...] = "all"
    dataset: str = Field(pattern=DATASET_NAME)
    noise: Literal["site", "coordinator", "split"] = Field(
        default="site", json_schema_extra={"enum": ["site", "coordinator"]}
    )
    min_sites: int | None = Field(default=None, ge=1, le=1000)
    #: for so many seconds a site may take to answer one phase; then the rest goes on without it
    patience: float = Field(default=PATIENCE_SECONDS, ge=0.1, le=86_400)

    @field_validator("sites", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("patience", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.noise == "split" and not self.SPLITS:
            told = 'may be "split" for questions (query) and training (train); here it is "site" or "coordinator"'
            raise rule("noise", told)
        if self.sites == "all":
            return self
        if not self.sites or len(set(self.sites)) != len(self.sites):
            raise rule("sites", 'must be "all", or name at least one site, none of them twice')
        if self.min_sites is not None and self.min_sites > len(self.sites):
            raise rule("min_sites", "must not be more than the sites that are named")
        return self

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets whose rows are read, and each of which pays."""
        return (self.dataset,)

    def schema_among(self, declared: Mapping[str, Schema]) -> Schema:
        """Return the schema of the rows that it is about, as a site declares its data sets, or refuse that."""
        return declared[self.dataset]

    @property
    def server(self) -> Literal["trusted", "split", "untrusted"]:
        """Say whether the coordinator is shown what it could misuse: each site's exact totals, or one of two shares of
        them."""
        if self.noise == "split":
            return "split"
        return "trusted" if self.noise == "coordinator" else "untrusted"

    @property
    def one_noise(self) -> bool:
        """Return whether noise hides all sites' totals together, and not each site's own."""
        return self.noise != "site"

    @property
    def only_simulated(self) -> str | None:
        """The field for which it can only be simulated; None where it can be put up."""
        return None

    @property
    def only_simulated_because(self) -> str:
        """Say why, and what to do about it."""
        return ""

    @property
    def phases(self) -> int:
        """The number of phases the task has at most, one after another."""
        return 1

    @property
    def in_attempts(self) -> bool:
        """Return whether a site works on it in attempts over blocks of a growing data set, each with its own claim."""
        return False

    @property
    def by_accuracy(self) -> bool:
        """Return whether it says how exact the answer is to be; then `epsilon` is what that costs."""
        return False

    @property
    def recallable(self) -> bool:
        """Return whether a site may have something of the answer already, released before.

        Then it is asked for its price.
        """
        return False

    @property
    def priced(self) -> bool:
        """Return whether its epsilon is known; else nobody can answer it yet."""
        return True

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the data set that are read: every site's must be declared alike."""
        raise NotImplementedError

    @property
    def counted(self) -> tuple[str, ...]:
        """Of those, the ones whose values are counted with: kept to their bounds, or left out where they do not fit."""
        return self.reads

    def needed(self, asked: int) -> int:
        """Return how many of the sites that are asked must answer every phase."""
        return min(self.min_sites or 1, asked) if self.min_sites is None else self.min_sites


def in_all(document: SiteDocument, price: Price, sites: int) -> dict[str, Any]:
    """Return what one unit pays in all whose rows lie at all of so many sites, as JSON."""
    epsilon, delta = price.at_sites(sites, one_noise=document.one_noise)
    return {"sites": sites, "epsilon": float(epsilon), "delta": float(delta)}


def in_all_words(told: Mapping[str, Any], which: str) -> str:
    """Say what `in_all` tells of sites that are said to be `which`; nothing of one site."""
    if told["sites"] < 2:
        return ""
    delta = f", delta {rounded_up(told['delta'])}" if told["delta"] else ""
    at = f"all {figure(told['sites'])} sites that {which}"
    return f"Somebody whose rows lie at {at} pays at most epsilon {rounded_up(told['epsilon'])}{delta} in all."


_NOISE = {
    "untrusted": "Noise is added at each site before anything leaves it, so nobody has to trust the coordinator.",
    "trusted": "Each site's exact totals leave it. You would have to trust the coordinator: it promises to add the "
    "noise once, to let nothing else out and to keep none of them.",
    "split": "Each site's totals leave it in two shares, which are chance alone: one for the coordinator, one sealed "
    "for the helper {helper}. Each of the two adds up its shares with noise that suffices alone, once, and only the "
    "sums are opened. You would have to trust one of the two: both together could put a site's exact totals together.",
}


def explained(document: SiteDocument, *, does: str, price: str | None = None) -> str:
    """Say what every kind of this family tells the steward who decides. `does`: what is computed, in one sentence;
    `price`: what it costs, where that is not simply the document's epsilon."""
    where = "every site that has it" if document.sites == "all" else ", ".join(document.sites)
    noise = _NOISE[document.server].format(helper=getattr(document, "helper", None) or "that it names")
    delta = f", delta {figure(document.delta)}" if document.delta else ""
    price = price or (
        f"Price at each site that answers: epsilon {figure(document.epsilon)}{delta}, over every phase of the task. "
        "Somebody whose rows lie at several sites pays at each of them."
    )
    named = ""
    if document.sites != "all" and document.priced:
        paid = Price(document.epsilon, document.delta, Unit.EVENT)
        named = in_all_words(in_all(document, paid, len(document.sites)), "it names")
    pieces = [
        f"Name: {document.name}." if document.name else "",
        f"Purpose: {document.purpose}" if document.purpose else "",
        f"This task asks the data set {' joined with '.join(document.datasets)} at {where}. {does}",
        f"It reads the columns {', '.join(document.reads)}." if document.reads else "",
        noise,
        " ".join(filter(None, (price, named, large_delta(document.delta)))),
    ]
    return "\n".join(piece for piece in pieces if piece)


def differing(one: Schema, other: Schema, columns: tuple[str, ...]) -> str | None:
    """Say in words what keeps two sites' answers from being added up; None where nothing does."""
    for name in columns:
        if _column(one, name) != _column(other, name):
            return f"its column {name!r} is declared differently from that of the other sites"
    return None


def declared(schema: Schema, columns: tuple[str, ...]) -> str:
    """A digest of all of a schema that totals over these columns, and the noise on them, depend on. An ask says by
    which of them its task goes: so nobody adds noise for another schema than the one that the totals came from."""
    found = [(name, _column(schema, name)) for name in sorted(columns)]
    said = {name: None if c is None else c.model_dump(mode="json", exclude={"description"}) for name, c in found}
    body = {"unit": schema.unit, "rows": schema.max_rows_per_unit, "columns": said}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _column(schema: Schema, name: str) -> Column | None:
    """A column by its name, as a condition may spell it."""
    return schema.columns.get(name) or next((c for n, c in schema.columns.items() if n.lower() == name.lower()), None)


def schemas_of(body: Mapping[str, Mapping[str, Any]]) -> dict[str, Schema]:
    """Schemas by site, as they were stored."""
    from thebes.data.schema import schema_of

    return {site: schema_of(schema) for site, schema in body.items()}

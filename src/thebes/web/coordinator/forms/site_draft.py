"""A task for institutions that is being composed: what stands in the form, and the document it means.

What must stay true: columns are offered as the sites declare them; nothing typed is lost or guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from thebes.privacy.reading import NotJSON, read_json
from thebes.tasks.document import InvalidDocument
from thebes.tasks.site_document import LOCAL
from thebes.web.coordinator.forms import accuracy, blocks, pipeline
from thebes.web.coordinator.forms.bound import number, text, typed

KINDS = ("query", "train", "pipeline", "algorithm")
STATISTICS = ("count", "sum", "mean", "variance", "histogram", "quantile", "correlation")
GROUPED = ("count", "sum", "mean", "variance")
MODELS = ("LogisticRegression", "LinearRegression")
NOISES = {
    "site": "at each site, before anything leaves it",
    "coordinator": "once, here: less noise, but this server sees exact totals, and sites may refuse",
}
EVERYWHERE = ("name", "purpose", "epsilon", "delta", "where", "noise", "min_sites", "patience")
OWN: dict[str, tuple[str, ...]] = {
    "query": ("statistic", "column", "bins", "quantile", *accuracy.FIELDS),
    "train": (
        "model",
        "output",
        "rounds",
        "local_steps",
        "learning_rate",
        "momentum",
        "clip",
        "batch",
        "loss_share",
        "tolerance",
    ),
    "pipeline": pipeline.FIELDS,
    "algorithm": blocks.FIELDS,
}
LISTS = {"query": ("by",), "train": ("inputs",), "pipeline": ("inputs",), "algorithm": ("by", "inputs")}
_WORDS = frozenset(
    ["name", "purpose", "where", "noise", "statistic", "column", "model", "output", "asked_by", *blocks.WORDS]
)
DEFAULTS = {
    "epsilon": "1",
    "noise": "site",
    "statistic": "count",
    "asked_by": accuracy.BY_PRICE,
    "beta": accuracy.BETA,
    "model": "LogisticRegression",
    "rounds": "20",
    "mapping": "gradient",
    "reduce": "mean",
    "rule": "sgd",
    "strategy": "conserve",
}
LABELS = {
    "dataset": "Data set",
    "sites": "Sites",
    "statistic": "Statistic",
    "column": "Column",
    "columns": "Columns",
    "by": "By group",
    "where": "Only rows where",
    "accuracy": "How exact",
    "alpha": "Within",
    "beta": "Odds of missing that",
    "max_epsilon": "Epsilon at most",
    "noise": "Noise",
    "min_sites": "Sites needed",
    "patience": "Seconds a site may take",
    "inputs": "Inputs",
    "rounds": "Rounds",
    "local_steps": "Steps of a site in a round",
    "momentum": "Momentum",
    "clip": "Clip",
    "batch": "Share of people in a step",
    "loss_share": "Share of the budget for the loss",
    "tolerance": "Stop when an update is smaller than",
    "privacy": "Privacy",
    "mapping": "What each site computes",
    "reduce": "What becomes of it",
    "features": "New columns",
    "rows": "Several rows of one person",
    "rule": "The model moves by",
    "ridge": "At least as steep as",
    "target": "Must reach",
    "confidence": "Confidence",
    "strategy": "How attempts grow",
    "start_epsilon": "Epsilon of the first attempt",
    "least_blocks": "Blocks of the first attempt",
    "window": "Only the last",
    "timeout": "Give up after",
    "largest": "Largest loss of one row",
    "layers": "Units of each layer",
    "steps": "Steps",
    "rate": "Share of rows in a step",
}
ANCHORS = {"type": "kind", "columns": "column", "privacy": "raw", "document": "raw", "accuracy": "alpha"}

Sites = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Everything that stands in the form. No site ticked means every site that has the data set. `written`, `raw` and
    `rest` are as in a draft for people."""

    kind: str = "query"
    dataset: str = ""
    asked: tuple[str, ...] = ()
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other: str = ""  #: the second column of a correlation
    fields: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    rest: Mapping[str, Any] = field(default_factory=dict)
    written: bool = False
    raw: str = ""
    note: str = ""
    #: column -> how it is declared, as far as the form knows
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    having: tuple[str, ...] = ()  #: sites that have the data set

    bounds: tuple[Any, ...] = ()  #: the sites declare them

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    def ticked(self, name: str) -> tuple[str, ...]:
        return self.lists.get(name, ())

    @property
    def rest_text(self) -> str:
        return json.dumps(self.rest)

    @property
    def made(self) -> tuple[str, ...]:
        """New columns, which are numbers."""
        return blocks.names(self.get("features")) if self.kind == "algorithm" else ()

    @property
    def numbers(self) -> list[str]:
        """Columns that are numbers with declared bounds, and new ones."""
        return [*(name for name, told in self.columns.items() if told.get("low") is not None), *self.made]

    @property
    def keys(self) -> list[str]:
        """Columns with declared values."""
        return [name for name, told in self.columns.items() if told.get("values")]

    @property
    def offered(self) -> list[str]:
        """The columns that the chosen statistic can be of."""
        if self.asks == "count":
            return []
        return [*self.numbers, *self.keys] if self.asks == "histogram" else self.numbers

    @property
    def asks(self) -> str:
        """The chosen statistic; empty where there is none."""
        if self.kind == "algorithm":
            return self.get("reduce") if self.get("mapping") == "statistic" else ""
        return self.get("statistic") if self.kind == "query" else ""

    @property
    def by_exactness(self) -> bool:
        """True where it is asked by how exact the answer is to be."""
        return self.kind == "query" and accuracy.idle("epsilon", self.asks, self.get("asked_by"))

    @property
    def predicted(self) -> list[str]:
        """The columns that the chosen model can learn to tell."""
        if self.get("model") in ("LinearRegression", "GroupMeans"):
            return self.numbers
        return [*self.keys, *self.numbers]

    # --- from what a browser sent -----------------------------------------------------------------------

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """Read what stands in the form, as a browser sent it."""
        kind = text(body, "kind")
        return cls(
            kind=kind,
            dataset=text(body, "dataset"),
            asked=_texts(body.get("site")),
            lists={name: _texts(body.get(name)) for name in LISTS[kind]},
            other=text(body, "other"),
            fields={name: text(body, name) for name in (*EVERYWHERE, *OWN[kind]) if name in body},
            rest=_object(text(body, "rest")),
            written=text(body, "mode") == "json",
            raw=text(body, "raw"),
        )

    def settled(self, sites: Sites) -> Self:
        """The form after its structure changed: a data set that there is, and columns as its sites declare them."""
        found = datasets_of(sites)
        dataset = self.dataset or next(iter(found), "")
        having = found.get(dataset, {})
        asked = tuple(site for site in self.asked if site in having)
        if self.kind == "pipeline":
            asked = (*asked, *(site for site in having if site == LOCAL), *having)[:1]
        columns = next((having[site] for site in (asked or tuple(having))), {})
        known = (*EVERYWHERE, *OWN[self.kind])
        fields = {**{name: value for name, value in DEFAULTS.items() if name in known}, **self.fields}
        return replace(self, dataset=dataset, asked=asked, columns=columns, having=tuple(having), fields=fields)

    # --- to and from a document -------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The document that this means; InvalidDocument where something cannot even be read."""
        from thebes.web.coordinator.forms.draft import document_in

        if self.written:
            return document_in(self.raw)
        problems: list[tuple[str, str]] = []
        made: dict[str, Any] = {"type": self.kind, "sites": list(self.asked) or "all"}
        if self.dataset:
            made["dataset"] = self.dataset
        for name in (*EVERYWHERE, *OWN[self.kind]):
            written = self.get(name).strip()
            if not written or self._idle(name):
                continue
            worded = name in _WORDS or (self.kind == "pipeline" and name in pipeline.WORDS)
            read = written if worded else number(written)
            if name == "features":
                problems += blocks.troubles(written)
            if self.kind == "pipeline":
                problems += pipeline.troubles(name, written)
            if read is None:
                problems.append((name, "must be a number"))
            else:
                made[name] = read
        for name in LISTS[self.kind]:
            chosen = [column for column in self.ticked(name) if column != made.get("output")]
            if chosen and not self._idle(name):
                made[name] = chosen
        if self.get("statistic") == "correlation" and self.kind == "query":
            both = [column for column in (made.pop("column", ""), self.other) if column]
            made |= {"columns": both} if both else {}
        if problems:
            raise InvalidDocument(problems)
        return _NESTED.get(self.kind, dict)(made) | dict(self.rest)

    def _idle(self, name: str) -> bool:
        """Return whether a field means nothing for the chosen statistic, so that what stands there is left aside."""
        if self.kind == "algorithm" and blocks.idle(name, self.get("mapping")):
            return True
        if self.kind == "pipeline" and pipeline.idle(name, self.get("model")):
            return True
        statistic = self.asks
        if self.kind == "query" and accuracy.idle(name, statistic, self.get("asked_by")):
            return True
        return statistic != "" and (
            (name == "column" and statistic == "count")
            or (name == "by" and statistic not in GROUPED)
            or (name == "quantile" and statistic != "quantile")
            or (name == "bins" and (statistic != "histogram" or self.get("column") in self.keys))
        )

    def as_far(self) -> str:
        """The document as JSON, as far as it can be read."""
        try:
            return json.dumps(self.document(), indent=2, ensure_ascii=False)
        except InvalidDocument as refused:
            wrong = {name for name, _ in refused.problems}
            read = {name: value for name, value in self.fields.items() if name not in wrong}
            return json.dumps(replace(self, fields=read).document(), indent=2, ensure_ascii=False)

    @classmethod
    def of(cls, document: Mapping[str, Any], sites: Sites) -> Self:
        """The form that means this document."""
        kind = str(document["type"])
        told = _FLAT.get(kind, dict)(document)
        rest = {name: value for name, value in told.items() if name not in ("type", "version")}
        asked, dataset = rest.pop("sites", [LOCAL] if kind == "pipeline" else "all"), rest.pop("dataset", "")
        both = rest.get("columns") if rest.get("statistic") == "correlation" else None
        other = ""
        if isinstance(both, list) and len(both) == 2:
            rest["column"], other = map(str, rest.pop("columns"))
        lists = {name: tuple(map(str, rest.pop(name))) for name in LISTS[kind] if isinstance(rest.get(name), list)}
        fields = dict.fromkeys((*EVERYWHERE, *OWN[kind]), "")
        for name in (*EVERYWHERE, *OWN[kind]):
            if kind == "pipeline" and name in ("where", "min_sites"):
                continue
            if isinstance(rest.get(name), (str, int, float)) and (name != "model" or rest[name] in models_of(kind)):
                fields[name] = typed(rest.pop(name))
        named = tuple(map(str, asked)) if isinstance(asked, list) else ()
        made = cls(kind, str(dataset), named, lists, other, fields, rest)
        settled = made.settled(sites)
        unknown = [site for site in named if site not in settled.having]
        return replace(
            settled, rest={**rest, "sites": list(named)} if unknown else rest, asked=() if unknown else named
        )


def models_of(kind: str) -> Iterable[str]:
    """Return the models that a task of this kind can train."""
    return pipeline.MODELS if kind == "pipeline" else MODELS


def datasets_of(sites: Sites) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Map data set -> site -> its columns; sites that may not take part any more are left out."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for site in sites:
        if site["state"] in ("connected", "away"):
            for name, told in site["datasets"].items():
                found.setdefault(name, {})[site["name"]] = told["schema"]["columns"]
    return dict(sorted(found.items()))


def cautions(document: Any, sites: Sites, *, written: bool) -> list[dict[str, str]]:
    """List what is allowed but may not be meant, with the place in the form where it can be mended."""
    named = None if document.sites == "all" else set(document.sites)
    away = [
        site["name"]
        for site in sites
        if site["state"] == "away" and document.dataset in site["datasets"] and (named is None or site["name"] in named)
    ]
    found = []
    if away:
        found.append(("Sites", f"{', '.join(away)}: not linked just now, so perhaps not in the answer", "sites"))
    if document.noise == "coordinator":
        found.append(
            ("Noise", "this server is shown each site's exact totals; a site's policy may refuse that", "noise")
        )
    return [
        {"label": label, "message": words, "anchor": "raw" if written else anchor} for label, words, anchor in found
    ]


#: between the form's fields and a document that holds them elsewhere
_NESTED = {"algorithm": blocks.nested, "pipeline": pipeline.nested, "query": accuracy.nested}
_FLAT = {"algorithm": blocks.flat, "pipeline": pipeline.flat, "query": accuracy.flat}


def _texts(value: object) -> tuple[str, ...]:
    listed: Iterable[object] = value if isinstance(value, list) else [value]
    return tuple(each for each in listed if isinstance(each, str) and each)


def _object(words: str) -> dict[str, Any]:
    try:
        read = read_json(words) if words else {}
    except NotJSON:
        return {}
    return read if isinstance(read, dict) else {}

"""The data that a task asks of institutions, as it is composed: a data set, and which sites that have it.

What must stay true: columns are offered as the sites declare them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from thebes.data.schema import size_of
from thebes.tasks.site_document import LOCAL
from thebes.web.coordinator.forms.bound import text, texts

Sites = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class SiteData:
    """No site ticked means every site that has the data set. `columns` says how each is declared, as far as the form
    knows; `having` names the sites that have the data set."""

    asks_groups: ClassVar[bool] = False
    template: ClassVar[str] = "coordinator/site_data.html"
    labels: ClassVar[Mapping[str, str]] = {"dataset": "Data set", "sites": "Sites"}
    filled: ClassVar[tuple[str, ...]] = ()

    dataset: str = ""
    asked: tuple[str, ...] = ()
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    having: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name, told in self.columns.items() if told.get("low") is not None and not size_of(told))

    @property
    def tensors(self) -> tuple[str, ...]:
        return tuple(name for name, told in self.columns.items() if size_of(told))

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(name for name, told in self.columns.items() if told.get("values"))

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> SiteData:
        """Read what stands in the form, as a browser sent it."""
        return cls(text(body, "dataset"), texts(body.get("site")))

    def settled(self, told: Mapping[str, Any], *, one_site: bool) -> SiteData:
        """A data set that there is, and columns as its sites declare them."""
        found = told["datasets"]
        dataset = self.dataset or next(iter(found), "")
        having = found.get(dataset, {})
        asked = tuple(site for site in self.asked if site in having)
        if one_site:
            asked = (*asked, *(site for site in having if site == LOCAL), *having)[:1]
        columns: Mapping[str, Any] = next((having[site] for site in (asked or tuple(having))), {})
        return replace(self, dataset=dataset, asked=asked, columns=columns, having=tuple(having))

    seen = settled

    def document(self, problems: list[tuple[str, str]], *, bounded: bool) -> dict[str, Any]:
        """These parts of the document."""
        return {"sites": list(self.asked) or "all", **({"dataset": self.dataset} if self.dataset else {})}

    @classmethod
    def of(cls, rest: dict[str, Any], told: Mapping[str, Any], *, one_site: bool) -> SiteData:
        """Return what means these parts of a document; takes out of `rest` what it says."""
        dataset = rest.pop("dataset", "")
        named = rest.get("sites", [LOCAL] if one_site else "all")
        asked = tuple(map(str, named)) if isinstance(named, list) else ()
        made = cls(str(dataset), asked).settled(told, one_site=one_site)
        if set(asked) <= set(made.having) and (asked or named == "all"):
            rest.pop("sites", None)
            return made
        return replace(made, asked=())

    def place(self, name: str) -> tuple[str, str] | None:
        """Return what a part of the document is called here, and where it is mended; None where that is elsewhere."""
        top = name.partition(".")[0]
        return (self.labels[top], top) if top in self.labels else None


def helpers_of(sites: Sites) -> list[str]:
    """Name the sites of other institutions, which may be the second of two servers."""
    return sorted(site["name"] for site in sites if site["state"] in ("connected", "away") and site["name"] != LOCAL)


def datasets_of(sites: Sites) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Map data set -> site -> its columns; sites that may not take part any more are left out."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for site in sites:
        if site["state"] in ("connected", "away"):
            for name, told in site["datasets"].items():
                found.setdefault(name, {})[site["name"]] = told["schema"]["columns"]
    return dict(sorted(found.items()))

"""The price of a document that says how exact its answer is to be, which follows from the sites that are asked."""

from __future__ import annotations

from importlib import import_module

from thebes.tasks.protocols import Setting
from thebes.tasks.registry import aggregator, packages
from thebes.tasks.site_document import SiteDocument


def priced(document: SiteDocument, setting: Setting) -> SiteDocument:
    """Return the document with what its accuracy costs as its epsilon, where it says how exact the answer is to be; any
    other as it is. `InvalidDocument` where that is more than it allows."""
    if not document.by_accuracy:
        return document
    asked = aggregator(document, setting).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").priced
    found: SiteDocument = made(document, {site: setting.sites[site] for site in asked}, setting.quotes)
    return found


def alone(document: SiteDocument, setting: Setting) -> dict[str, float]:
    """Return what a site is told that answers within a width of its own, of a document that says how exact the answer
    is to be; nothing where none can."""
    asked = aggregator(document, setting).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").alone
    told: dict[str, float] = made(document, {site: setting.sites[site] for site in asked})
    return told


def expected(document: SiteDocument, setting: Setting) -> dict[str, tuple[float, str]]:
    """Return what each site is expected to pay, and where its answer would come from, of a document that says how exact
    the answer is to be."""
    asked = aggregator(document, setting).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").expected
    found: dict[str, tuple[float, str]] = made(document, {site: setting.sites[site] for site in asked}, setting.quotes)
    return found

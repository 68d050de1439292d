"""Kinds of which a test has one half only: a site's without a coordinator's, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from thebes.tasks import registry


@contextmanager
def known(package: str) -> Iterator[None]:
    """Know the kind that a package is named after, which `registry.registered` would refuse for the half it lacks."""
    packages, type_ = registry.packages(), package.rpartition(".")[2]
    packages[type_] = package
    try:
        yield
    finally:
        del packages[type_]

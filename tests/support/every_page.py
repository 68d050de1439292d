"""Every page that a server has, as its routers say, so that a new one is looked at without being named here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from itertools import product
from typing import Any
from unittest.mock import MagicMock

from tests.support.browser import Visitor


def pages(visitor: Visitor, put_on: Callable[..., None], **examples: Iterable[Any]) -> list[str]:
    """List the addresses at which this visitor sees a whole page, of all that `put_on` puts onto a server, with
    `examples` in the places that addresses leave open. Parts of pages and files are no pages."""
    found = []
    for path in _paths(put_on):
        answers = [(address, _shown(visitor, address)) for address in _filled(path, examples)]
        assert any(shown is not None for _, shown in answers), f"nothing is at {path}: give an example of what it shows"
        found += [address for address, shown in answers if shown and shown.lstrip().startswith("<!doctype html>")]
    return found


def _paths(put_on: Callable[..., None]) -> list[str]:
    """List what the routers of a server read but files, with nothing behind them."""
    api, *behind = (MagicMock() for _ in signature(put_on).parameters)
    put_on(api, *behind)
    routes = [route for told in api.include_router.call_args_list for route in told.args[0].routes]
    return [route.path for route in routes if "GET" in route.methods and "." not in route.path]


def _filled(path: str, examples: dict[str, Iterable[Any]]) -> Iterator[str]:
    names = re.findall(r"\{(\w+)\}", path)
    for values in product(*(examples[name] for name in names)):
        yield path.format(**dict(zip(names, values, strict=True)))


def _shown(visitor: Visitor, address: str) -> str | None:
    """Return what stands at an address, or None where it was refused."""
    answer = visitor.page.request.get(visitor.origin + address, headers={"accept": "text/html"})
    assert answer.status < 500, f"{address} fails"
    return answer.text() if answer.ok else None

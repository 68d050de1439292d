"""Forms of pages, read as a browser reads them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


def filled(page: str) -> dict[str, Any]:
    """What a browser would send of the form on a page."""
    body: dict[str, Any] = {}

    class Form(HTMLParser):
        where: str | None = None

        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            told = dict(attributes)
            name = told.get("name")
            if tag == "input" and name and name not in ("viewport",):
                if told.get("type") in ("checkbox", "radio") and "checked" not in told:
                    return
                value = told.get("value") or ""
                body[name] = [*body[name], value] if isinstance(body.get(name), list) else value
                if told.get("type") == "checkbox" and not isinstance(body[name], list):
                    body[name] = [value]
            elif tag == "select" and name:
                self.where = name
                body[name] = None
            elif tag == "option" and self.where and (body[self.where] is None or "selected" in told):
                body[self.where] = told.get("value") or ""
            elif tag == "textarea" and name:
                self.where = name
                body[name] = ""

        def handle_data(self, data: str) -> None:
            if self.where and self.lasttag == "textarea":
                body[self.where] += data

        def handle_endtag(self, tag: str) -> None:
            if tag in ("select", "textarea"):
                self.where = None

    Form().feed(page)
    return body

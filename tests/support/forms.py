"""Forms of pages, read as a browser reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.support.coordinator import Front

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}


@contextmanager
def composing(folder: Path, app: str, table: str, columns: Mapping[str, Any]) -> Iterator[Front]:
    """A coordinator with one published table, and its operator signed in to its pages."""
    with Front(folder) as made:
        tables = {table: {"description": "", "columns": columns}}
        made.client.post("/api/schema", json={"app": app, "tables": tables}, headers=made.admin)
        made.client.post("/sign-in", json={"token": made.admin_token}, headers=HERE)
        yield made


def write(front: Front, path: str, body: dict[str, Any]) -> str:
    """Send a form to a page, and return what it answers."""
    answer = front.client.post(path, json=body, headers=HERE)
    assert answer.status_code == 200, answer.text
    return str(answer.text)


def put_up(front: Front, body: dict[str, Any]) -> dict[str, Any]:
    """The document that was put up for this form."""
    answer = front.client.post("/ask", json=body, headers=HERE)
    assert "hx-redirect" in answer.headers, answer.text
    document: dict[str, Any] = front.task(answer.headers["hx-redirect"].removeprefix("/task/"))["document"]
    return document


def filled(page: str) -> dict[str, Any]:
    """Return what a browser would send of the form on a page."""
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

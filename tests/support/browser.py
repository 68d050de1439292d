"""A real Chromium for tests, and what every page must keep to: no error on the console, no request to elsewhere.

Needs the development extras and a Chromium of the system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

REQUIRE, SCREENSHOTS = "THEBES_REQUIRE", "THEBES_SCREENSHOTS"
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
WHOLE = (("desk", "light"), ("phone", "dark"))
PATIENCE = 120_000  #: milliseconds for whatever a page shows at last: how soon tells about the machine
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
_SWEEP = (Path(__file__).parent / "sweep.js").read_text(encoding="utf-8")
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The browser of this system, or None."""
    return next((found for name in _NAMES if (found := shutil.which(name)) is not None), None)


def needed() -> str:
    """The browser of this system. Without one the test is skipped, or fails where THEBES_REQUIRE names `chromium`."""
    found = program()
    if found is None:
        if "chromium" in os.environ.get(REQUIRE, ""):
            pytest.fail(f"Chromium is not installed, and {REQUIRE} asks for it")
        pytest.skip("Chromium is not installed")
    return found


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser. Without one the test is skipped, or fails where THEBES_REQUIRE names `chromium`."""
    found = needed()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=list(ARGUMENTS), timeout=PATIENCE)
        try:
            yield running
        finally:
            running.close()


class Visitor:
    """One browser session at one server. `page` is Playwright's; `troubles` holds what must not have happened."""

    def __init__(self, running: Any, origin: str, folder: Path | None, **look: Any) -> None:
        self.origin = origin.rstrip("/")
        self._folder = folder
        self._scheme = look.get("color_scheme", "light")
        self._context = running.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **look})
        self._context.set_default_timeout(PATIENCE)
        self.page = self._context.new_page()
        self.troubles: list[str] = []
        #: answers of the server that this test expects to be refusals: the browser reports those on its console
        self.expected: set[int] = set()
        #: another server whose pages are part of a story, with whatever those ask for
        self.beside = ""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        self._context.on("request", self._asked)

    def open(self, address: str) -> Any:
        """Go to an address of the server."""
        return self.page.goto(address if "://" in address else self.origin + address)

    def picture(self, name: str, *, whole: bool = True) -> None:
        """Look at this page as it stands: what not everybody could use is a trouble, what lies beside its place alone
        where not the `whole` is looked at. A screenshot of the whole page stays where somebody wants them."""
        expect(self.page.locator(".htmx-request")).to_have_count(0)
        found = [*self._beyond(), *self.cut(), *(self._sweep() + self._axe() if whole else [])]
        self.troubles += [f"{name}: {trouble}" for trouble in found]
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(self._folder / f"{name}.png"), full_page=True, caret="initial")

    def pictures(self, name: str) -> None:
        """Look at this page with all that can be unfolded, at a desk and on a telephone, in light and in dark."""
        before = self.page.viewport_size
        self.page.wait_for_load_state("networkidle")
        self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        for size, viewport in (("desk", DESK), ("phone", PHONE)):
            self.page.set_viewport_size(viewport)
            for scheme in ("light", "dark"):
                self.page.emulate_media(color_scheme=scheme)
                # Each size and each scheme is looked at wholly once: colours do not follow from sizes.
                self.picture(f"{name}-{size}-{scheme}", whole=(size, scheme) in WHOLE)
        self.page.set_viewport_size(before)
        self.page.emulate_media(color_scheme=self._scheme)

    def tab_to(self, where: Any) -> None:
        """Go to a control, a locator, with the keyboard alone; it shows that one is there. What is written anew while
        somebody passes is met on the next way round."""
        for step in range(240):
            if step % 80 == 0:
                self.page.wait_for_timeout(500 if step else 0)
                expect(self.page.locator(".htmx-request")).to_have_count(0)
            self.page.keyboard.press("Tab")
            if where.evaluate("e => e === document.activeElement"):
                seen = "e => [getComputedStyle(e).outlineStyle, parseFloat(getComputedStyle(e).outlineWidth) >= 2]"
                assert where.evaluate(seen) == ["solid", True], "the focus is not seen"
                expect(where).to_be_in_viewport()
                return
        raise AssertionError(f"the keyboard does not reach {where}")

    def fits(self) -> bool:
        """Return whether nothing has to be scrolled sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    def cut(self) -> list[str]:
        """List the drawings that have to be scrolled to be seen, and the words that reach beyond theirs. A map with a
        place for each of many blocks is as wide as they are."""
        script = """() => [...document.querySelectorAll('svg.drawing:not(.heatmap)')].filter(s => s.checkVisibility())
          .flatMap(s => {
            const [box, place] = [s.getBoundingClientRect(), s.closest('.scroll')];
            const beyond = [...s.querySelectorAll('text')].filter(t => {
              const words = t.getBoundingClientRect();
              return words.left < box.left - 1 || words.right > box.right + 1 || words.bottom > box.bottom + 1;
            });
            const title = s.querySelector('title').textContent;
            const wide = place && s.scrollWidth > place.clientWidth + 1 ? [`the drawing "${title}" is cut`] : [];
            return [...wide, ...beyond.map(t => `"${t.textContent}" reaches beyond the drawing "${title}"`)];
          })"""
        return [str(found) for found in self.page.evaluate(script)]

    def _beyond(self) -> list[str]:
        """List what reaches beyond the right edge, where something does."""
        script = """() => [...document.querySelectorAll('main *, header *, footer *')]
          .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 && !e.closest('.scroll, pre'))
          .map(e => e.outerHTML.slice(0, 120))"""
        return [] if self.fits() else ["scrolls sideways", *self.page.evaluate(script)[:5]]

    def _sweep(self) -> list[str]:
        """List what of this page somebody cannot use who does not see it, sees little, or has no mouse, as
        sentences."""
        return [str(found) for found in self.page.evaluate(_SWEEP)]

    def _axe(self) -> list[str]:
        """List what axe-core finds on this page, as sentences."""
        self.page.evaluate(_AXE)
        script = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations.flatMap(
          v => v.nodes.map(n => `${v.id} (${v.impact}): ${n.html.slice(0, 160)} ${n.failureSummary.slice(0, 200)}`))"""
        return [str(found) for found in self.page.evaluate(script)]

    def close(self) -> None:
        self._context.close()

    def _said(self, message: Any) -> None:
        if message.type not in ("error", "warning") or self._is_beside(self.page.url):
            return
        if any(f"status of {status} " in message.text for status in self.expected):
            return
        self.troubles.append(f"console {message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("data", "blob"):
            return
        if self._is_beside(request.url) or self._is_beside(request.frame.url):
            return
        if f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.troubles.append(f"request off origin: {request.url}")

    def _is_beside(self, address: str) -> bool:
        return bool(self.beside) and address.startswith(f"{self.beside}/")

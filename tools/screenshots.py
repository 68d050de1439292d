"""The pictures of the README, taken anew: runs `thebes demo`, looks at it with a browser, writes docs/pictures/.

    python tools/screenshots.py [--people 60]

Needs Chromium and the development extras. Look at what it wrote before you commit it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from thebes.testing.browser import Visitor, browser

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
MOST_SECONDS = 600


def main() -> None:
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--people", type=int, default=60)
    people = reading.parse_args().people
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "demo.json"
        command = [sys.executable, "-m", "thebes", "demo", "--people", str(people), "--json", str(told)]
        demo = subprocess.Popen(command)
        try:
            urls = _urls(told, demo)
            PICTURES.mkdir(exist_ok=True)
            with browser() as chromium:
                _person(chromium, urls["person"])
                _coordinator(chromium, urls["coordinator"])
        finally:
            demo.terminate()
            demo.wait(timeout=60)


def _urls(told: Path, demo: subprocess.Popen[bytes]) -> dict[str, str]:
    """The addresses, once every scene was played."""
    end = time.monotonic() + MOST_SECONDS
    while not told.exists():
        if demo.poll() is not None or time.monotonic() > end:
            raise SystemExit("the demo ended before its time")
        time.sleep(1)
    time.sleep(2)
    urls: dict[str, str] = json.loads(told.read_text())["urls"]
    return urls


def _person(chromium: Any, url: str) -> None:
    visitor = Visitor(chromium, url.partition("/?")[0], PICTURES, viewport={"width": 1180, "height": 900})
    page = visitor.page
    page.goto(url)
    page.get_by_role("link", name="Open tasks", exact=True).first.click()
    page.locator("main article a, main h2 a").first.click()
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / "person-task.png")
    page.get_by_role("link", name="My privacy", exact=True).click()
    page.get_by_role("heading", level=1).wait_for()
    page.screenshot(path=PICTURES / "person-privacy.png")
    visitor.close()


def _coordinator(chromium: Any, url: str) -> None:
    visitor = Visitor(chromium, url, PICTURES, viewport={"width": 1180, "height": 900}, color_scheme="dark")
    page = visitor.page
    page.goto(f"{url}/ended")
    page.get_by_role("link", name="favourite site", exact=False).first.click()
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / "coordinator-result.png")
    visitor.close()


if __name__ == "__main__":
    main()

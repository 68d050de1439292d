"""The pictures of the documentation, taken anew: runs `thebes demo` and a coordinator with a model that keeps learning,
looks at both with a browser, writes docs/pictures/.

    python tools/screenshots.py [--people 60] [--only training]

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

import numpy as np

from tests.support.browser import Visitor, browser
from tests.support.coordinator import Server
from thebes.data.rows import Rows
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.protocols import Ask

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
MOST_SECONDS = 600
UPDATES = 1500
VOTES: dict[str, Any] = {
    "type": "draw-discard",
    "name": "Who votes",
    "purpose": "To send the polling station's opening hours to those who may need them.",
    "epsilon": 8.0,
    "min_count": 100,
    "featurizer": "SELECT age, town, votes FROM profile.demographics",
    "family": "logistic",
    "inputs": ["age", "town"],
    "crosses": "pairwise",
    "output": "votes",
    "bounds": {
        "age": {"type": "range", "low": 18, "high": 90},
        "town": {"type": "set", "values": ["Thebes", "Delphi", "Argos"]},
        "votes": {"type": "set", "values": ["no", "yes"]},
    },
    "instances": 20,
    "learning_rate": 0.05,
}


def main() -> None:
    reading = argparse.ArgumentParser(description=__doc__)
    reading.add_argument("--people", type=int, default=60)
    reading.add_argument("--only", choices=["training"])
    told = reading.parse_args()
    PICTURES.mkdir(exist_ok=True)
    _training()
    if told.only is None:
        _demo(told.people)


def _demo(people: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "demo.json"
        command = [sys.executable, "-m", "thebes", "demo", "--people", str(people), "--json", str(told)]
        demo = subprocess.Popen(command)
        try:
            urls = _urls(told, demo)
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


class _Claim:
    """Made-up people have no ledger."""

    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        return None


def _training() -> None:
    """A model that keeps learning, on its page while it does."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        server = Server(Path(folder))
        try:
            task_id = server.post(VOTES)
            _learn(server, task_id)
            visitor = Visitor(chromium, server.ready["url"], PICTURES, viewport={"width": 820, "height": 1250})
            visitor.open("/sign-in")  # single instances are for who asked
            visitor.page.get_by_text("Or paste a token").click()
            visitor.page.fill("#token", server.admin_token)
            visitor.page.get_by_role("button", name="Sign in").click()
            visitor.page.get_by_role("button", name="Sign out").wait_for()
            visitor.open(f"/task/{task_id}")
            visitor.page.locator("#result svg").wait_for()
            visitor.page.locator("#training").screenshot(path=PICTURES / "coordinator-training.png")
            visitor.page.locator("#result section").first.screenshot(path=PICTURES / "coordinator-weights.png")
            visitor.close()
        finally:
            server.process.terminate()
            server.process.wait(timeout=60)


def _learn(server: Server, task_id: str) -> None:
    """So many made-up people take part, one after another."""
    document = registry.check(VOTES)
    owner, draw = registry.owner(document), np.random.default_rng(0)
    for _ in range(UPDATES):
        age, town = draw.uniform(18, 90), draw.choice(["Thebes", "Delphi", "Argos"])
        chance = 1 / (1 + np.exp(-(age / 72 * 4 - 3 + 1.5 * (town == "Delphi"))))
        votes = "yes" if draw.random() < chance else "no"
        rows = Rows.one_each({"age": np.array([age]), "town": np.array([town]), "votes": np.array([votes])})
        body = server.update(task_id)
        ask = Ask(body["ask_id"], body["part"], 0, body["payload"])
        made = owner.contribute(document, ask, rows, _Claim(), randomness=system())
        payload = {name: values[0].tolist() for name, values in made.fields.items()}
        server.submit(task_id, {**body, "payload": payload})


if __name__ == "__main__":
    main()

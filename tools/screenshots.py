"""The pictures of the documentation, taken anew: runs `thebes demo` and a coordinator with a model that keeps learning,
goes through both with a browser as people do, writes docs/pictures/.

    make pictures

Needs Chromium and the development extras; `python -m tools.screenshots --only training` takes those of the model alone.
Look at what it wrote before you commit it.
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
from PIL import Image

from tests.support.browser import Visitor, browser
from tests.support.coordinator import Server
from thebes.data.rows import Rows
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.protocols import Ask

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
MOST_SECONDS = 600
MOST_BYTES = 150_000
COLOURS = 128
DESK = {"width": 1100, "height": 860}
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
    reading.add_argument("--only", choices=["training", "demo"])
    told = reading.parse_args()
    PICTURES.mkdir(exist_ok=True)
    if told.only != "demo":
        _training()
    if told.only != "training":
        _demo(told.people)
    for picture in PICTURES.glob("*.png"):
        _small(picture)


def _small(picture: Path) -> None:
    """Write a picture with the few colours that pages have."""
    with Image.open(picture) as seen:
        few = seen.convert("RGB").quantize(COLOURS)
    few.save(picture, optimize=True)
    if picture.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{picture.name} is larger than {MOST_BYTES} bytes: take less of the page")


def _demo(people: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "demo.json"
        command = [sys.executable, "-m", "thebes", "demo", "--people", str(people), "--json", str(told)]
        demo = subprocess.Popen(command)
        try:
            urls = _urls(told, demo)
            with browser() as chromium:
                _evening(chromium, Path(folder) / "me", urls["coordinator"])
                _person(chromium, urls["person"])
                _requestor(chromium, urls["coordinator"])
                _steward(chromium, urls["site harbour"])
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


def _evening(chromium: Any, home: Path, coordinator: str) -> None:
    """A first evening of somebody new: a few things typed in, what waits, limits that are proposed."""
    command = [sys.executable, "-m", "thebes", "person", "--home", str(home), "--coordinator", coordinator]
    machine = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert machine.stdout is not None
        url = str(json.loads(machine.stdout.readline())["url"])
        visitor = Visitor(chromium, url.partition("/?")[0], None, viewport=DESK)
        page = visitor.page
        page.goto(url)
        for label, typed in (("Your age, in years", "44"), ("The place where you live", "Thebes")):
            page.get_by_label(label).fill(typed)
        page.get_by_role("button", name="Put it into my store").click()
        page.locator("#typed .note.good").wait_for()
        visitor.open("/")
        page.locator("#waiting .button").wait_for()
        _taken(page, "person-evening")
        visitor.open("/limits")
        _taken(page, "person-limits")
        visitor.close()
    finally:
        machine.terminate()
        machine.wait(timeout=60)


def _person(chromium: Any, url: str) -> None:
    """A person who took part: a task, what was spent, a rule, and what epsilon is."""
    visitor = Visitor(chromium, url.partition("/?")[0], None, viewport=DESK)
    page = visitor.page
    page.goto(url)
    visitor.open("/tasks")
    page.locator("main h2 a", has_text="hours of video a day").click()
    page.get_by_role("heading", name="Your decision").wait_for()
    _taken(page, "person-task")
    visitor.open("/privacy")
    _taken(page, "person-privacy")
    visitor.open("/limits")
    page.locator("#limits button[type=submit]").click()
    page.locator(".note.good").wait_for()
    visitor.open("/rules")
    page.select_option("#type", "bounded")
    page.get_by_label("profile.demographics").check()
    page.fill("#epsilon_per_week", "1")
    page.get_by_text("Agree to bounded tasks").wait_for()
    page.locator("#rule").evaluate("form => form.scrollIntoView()")
    _taken(page, "person-rule")
    visitor.open("/epsilon")
    _taken(page, "person-epsilon")
    visitor.close()


def _requestor(chromium: Any, url: str) -> None:
    """A question while it is composed, and an answer."""
    visitor = Visitor(chromium, url, None, viewport=DESK)
    page = visitor.page
    visitor.open("/ask")
    page.locator("#verdict .problems").wait_for()
    page.select_option("#table", "profile.demographics")
    page.locator("[value=age]").check()
    page.locator("#bound-0-low").fill("0")
    page.locator("#bound-0-high").fill("120")
    page.fill("#name", "How old we are")
    page.fill("#purpose", "To plan bus lines.")
    page.locator("#verdict .plain").wait_for()
    page.evaluate("scrollTo(0, 0)")
    _taken(page, "coordinator-ask")
    visitor.close()
    visitor = Visitor(chromium, url, None, viewport=DESK, color_scheme="dark")
    visitor.open("/ended")
    visitor.page.get_by_role("link", name="favourite site", exact=False).first.click()
    _taken(visitor.page, "coordinator-result")
    visitor.close()


def _steward(chromium: Any, url: str) -> None:
    """A request that a hospital refused, and the decision of its steward."""
    visitor = Visitor(chromium, url.partition("/?")[0], None, viewport=DESK)
    page = visitor.page
    page.goto(url)
    visitor.open("/requests")
    page.get_by_role("row").filter(has_text="refused").first.get_by_role("link").click()
    page.get_by_role("heading", name="Your decision").wait_for()
    _taken(page, "site-request")
    visitor.close()


def _taken(page: Any, name: str) -> None:
    """Take what stands on the first screen, once all of it has come."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)
    page.screenshot(path=PICTURES / f"{name}.png")


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

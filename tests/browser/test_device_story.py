"""Somebody runs `thebes login`, types its code in a real browser, and from then on asks without a token."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.coordinator import AGES, Server
from thebes.coordinator.auth.accounts import Accounts, Role
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database

pytestmark = pytest.mark.slow
PASSWORD = "correct horse battery"


def test_a_program_is_let_in_and_asks_and_is_shut_out(tmp_path: Path, visit: Callable[..., Visitor]) -> None:
    alone = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "settings"), "THEBES_TOKEN": ""}
    alone |= {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    command = [sys.executable, "-m", "thebes"]
    with Server(tmp_path / "home") as server:
        home = CoordinatorHome(tmp_path / "home")
        database = Database(home.store)
        key, token = (lambda: home.session_key), (lambda: home.admin_token)
        Accounts(database, admin_token=token, session_key=key, clock=SystemClock()).add("ana", PASSWORD, Role.REQUESTOR)
        database.close()
        url = server.ready["url"]
        asked = subprocess.Popen([*command, "login", url], env=alone, stdout=subprocess.PIPE, text=True)
        assert asked.stdout is not None
        line = asked.stdout.readline()
        found = re.search(r"Open (\S+) .* code: ([A-Z]{4}-[A-Z]{4})", line)
        assert found, line
        assert found[1] == f"{url}/device"
        me = visit(url)
        page = me.page
        me.open("/device")
        expect(page).to_have_url(re.compile(r"/sign-in\?then=/device"))
        page.fill("#username", "ana")
        page.fill("#password", PASSWORD)
        page.click("main form button")
        expect(page.locator("h1")).to_have_text("Let a program in")
        me.pictures("device")
        page.fill("#code", "BBBB-BBBB")
        page.click("text=Show the program")
        expect(page.locator("#told")).to_contain_text("compare it letter by letter")
        page.fill("#code", found[2].lower())
        page.click("text=Show the program")
        expect(page.locator("#told")).to_contain_text("127.0.0.1")
        me.pictures("device-found")
        page.click("text=Let it in")
        expect(page.locator("#told")).to_contain_text("may ask as ana now")
        assert "Signed in" in asked.communicate(timeout=60)[0]
        script = f"import thebes; print(thebes.connect({url!r}).submit({AGES!r}).status)"
        ran = subprocess.run([sys.executable, "-c", script], env=alone, capture_output=True, text=True, timeout=60)
        assert ran.stdout == "open\n", ran.stderr
        done = subprocess.run([*command, "logout", url], env=alone, capture_output=True, text=True, timeout=60)
        assert "Signed out" in done.stdout, done.stderr
        again = subprocess.run([sys.executable, "-c", script], env=alone, capture_output=True, text=True, timeout=60)
        assert "thebes login" in again.stderr

"""A browser that runs no script: what can be read is there, and what is typed stays where it was typed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import coordinator

from tests.support.browser import PATIENCE, PHONE

pytestmark = pytest.mark.slow


def test_a_password_gets_into_no_address_where_no_script_runs(chromium: Any, tmp_path: Path) -> None:
    running = coordinator(tmp_path / "home")
    context = chromium.new_context(viewport=PHONE, java_script_enabled=False)
    try:
        address = running.ready()["url"] + "/sign-in"
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        expect(page.locator("main")).to_contain_text("Allow scripts for this address", use_inner_text=True)
        page.fill("input[name=username]", "ana")
        page.fill("input[name=password]", "correct horse battery")
        with page.expect_console_message(lambda said: "form-action" in said.text, timeout=PATIENCE):
            page.keyboard.press("Enter")
        assert page.url == address
        assert not [each for each in asked if "horse" in each]
    finally:
        context.close()
        running.stop()

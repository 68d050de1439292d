"""Institutions in real browsers: a requestor composes and watches, a steward reads what was asked, a site goes away."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from institutions import Institutions

from tests.support.browser import DESK, PHONE, Visitor
from tests.support.every_page import pages
from tests.support.model_bundle import BUNDLE
from thebes.curator.pipelines.bundles import Bundles
from thebes.web.site.pages import put_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institutions]:
    made = Institutions(tmp_path_factory.mktemp("institutions"))
    yield made
    assert set(made.close()) == {0}


@pytest.fixture
def ana(there: Institutions, visit: Callable[..., Visitor]) -> Visitor:
    """Somebody signed in to the coordinator's pages."""
    made = visit(there.url)
    made.open("/sign-in")
    made.page.get_by_text("Or paste a token").click()
    made.page.fill("#token", there.token)
    made.page.get_by_role("button", name="Sign in").click()
    made.page.get_by_role("button", name="Sign out").wait_for()
    return made


@pytest.fixture
def steward(there: Institutions, visit: Callable[..., Visitor]) -> Callable[[str], Visitor]:
    """Opens a site's own pages with a new one-time address."""
    from thebes.site.client import running

    def come(site: str) -> Visitor:
        with running(there.folder / f"site-{site}") as distant:
            address = distant.address()
        made = visit(address.partition("/?")[0])
        made.open(address)
        made.page.get_by_role("heading", name=f"The site {site}").wait_for()
        expect(made.page).not_to_have_url(re.compile("code"))
        return made

    return come


def test_a_question_in_sql_is_explained_quoted_asked_and_answered_as_a_table(ana: Visitor) -> None:
    page = ana.page
    ana.open("/ask")
    page.get_by_role("link", name="Ask in SQL").click()
    page.get_by_text("The answer has the columns ward, n, mean_age.").wait_for()
    page.get_by_label("SQL", exact=False).first.fill("SELECT MAX(age) FROM patients")
    page.get_by_text("is one person's value; ask QUANTILE_CONT(column, 0.99)").wait_for()
    ana.pictures("sites-sql-refused")
    text = "SELECT ward, COUNT(*) AS n, AVG(age) AS years\nFROM patients\nGROUP BY ward\nORDER BY n DESC"
    page.get_by_label("SQL", exact=False).first.fill(text)
    page.get_by_label("Epsilon", exact=False).fill("2")
    page.get_by_role("row", name="age").wait_for()  # between which bounds
    page.get_by_text("for each ward").wait_for()
    page.get_by_role("button", name="Ask the sites").click()
    page.get_by_text("north would answer").wait_for()
    ana.pictures("sites-sql")
    page.get_by_role("button", name="Ask it").click()
    page.get_by_role("columnheader", name="years").wait_for()
    page.get_by_text("In brackets: where the exact number lies, 95 % of the time, each by itself.").wait_for()
    assert page.locator("tbody tr").count() > 1
    ana.pictures("sites-sql-answer")
    page.get_by_role("link", name="Ask something like it").click()
    page.get_by_text("The answer has the columns ward, n, years.").wait_for()
    page.get_by_label("Epsilon", exact=False).fill("5000")
    page.get_by_text("5,000").first.wait_for()
    page.get_by_role("button", name="Ask it").click()
    page.get_by_text("too few sites answered, and nothing was released").wait_for()
    page.get_by_text("north too little of its budget is left (budget)").wait_for()
    ana.pictures("sites-sql-unanswered")


def test_a_question_is_composed_put_up_and_answered(
    there: Institutions, ana: Visitor, steward: Callable[[str], Visitor]
) -> None:
    north = steward("north")
    page = ana.page
    ana.open("/sites")
    page.locator("#site-north").get_by_role("link", name="Ask about patients").click()
    assert page.get_by_label("north").is_checked()
    page.get_by_label("north").uncheck()
    page.locator("#statistic").select_option("mean")
    page.locator("#column").select_option("age")
    page.get_by_label("ward").check()
    page.get_by_label("Only rows where").fill("shoe_size > 40")
    page.get_by_role("link", name="Only rows where").wait_for()  # a problem, with the way to its place
    page.get_by_label("Only rows where").fill("sex = 'female'")
    page.get_by_label("Name", exact=False).first.fill("How old are the women in each ward?")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_role("heading", name="Price at each site that answers").wait_for()
    ana.pictures("sites-compose")
    page.get_by_role("button", name="Put it up").click()
    page.get_by_role("heading", name="By group").wait_for()
    page.get_by_text("Every site that was asked is in it.").wait_for()
    expect(page.locator("figure[aria-label='By group, drawn'] svg")).to_be_visible()
    ana.pictures("sites-question")

    north.page.get_by_role("link", name="How old are the women in each ward?").first.wait_for()
    north.open("/requests")
    north.page.locator("tbody a").first.click()
    north.page.get_by_role("heading", name="How old are the women in each ward?").wait_for()
    north.page.get_by_text("It asks the mean of age").wait_for()
    north.page.get_by_text("answered", exact=True).first.wait_for()
    north.pictures("steward-request")


def test_a_training_is_composed_and_watched(ana: Visitor) -> None:
    page = ana.page
    ana.open("/ask")
    page.get_by_label("Kind").select_option("train")
    page.get_by_label("Predicted column").select_option("diabetes")
    for column in ("age", "bmi", "glucose"):
        page.get_by_role("checkbox", name=column).check()
    for label, value in (
        ("Rounds", "150"),
        ("Learning rate", "3"),
        ("Share of the budget for the loss", "0.1"),
        ("Epsilon", "8"),
    ):
        page.get_by_label(label).first.fill(value)
    page.get_by_role("link", name="Delta").wait_for()  # is missing, and said so
    page.get_by_label("Delta").fill("1e-6")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_role("button", name="Put it up").click()
    page.get_by_role("heading", name="How it goes").wait_for()
    page.get_by_role("heading", name="Mean loss, by round").wait_for()
    ana.picture("sites-training-live")
    page.get_by_role("heading", name="How it went").wait_for(timeout=400_000)
    page.get_by_text("150 of 150 rounds").wait_for()
    page.get_by_role("heading", name="Weights").wait_for()
    expect(page.locator("figure[aria-label='Time by round, drawn'] svg")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the rounds (CSV)").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0].startswith('"round","sites","loss","update"')
    assert len(lines) == 151
    ana.pictures("sites-training")


def test_new_columns_are_composed_and_learned_from(ana: Visitor, steward: Callable[[str], Visitor]) -> None:
    page = ana.page
    ana.open("/ask")
    page.get_by_label("People needed").wait_for()
    page.get_by_label("Kind").select_option("train")
    page.get_by_label("Sites needed").wait_for()
    expect(page.get_by_label("People needed")).to_have_count(0)
    page.get_by_label("New columns").fill("load = bmi * glucose /")
    page.get_by_label("New columns").blur()
    page.get_by_role("link", name="New columns").wait_for()  # a problem, with the way to its place
    page.get_by_label("New columns").fill("load = bmi * glucose / 100")
    page.get_by_label("New columns").blur()
    page.get_by_label("Predicted column").select_option("diabetes")
    page.get_by_role("checkbox", name="age").check()
    page.get_by_role("checkbox", name="load").check()
    page.get_by_label("The model moves by").select_option("newton")
    page.get_by_label("At least as steep as").wait_for()
    page.locator("#rounds").fill("5")
    page.get_by_label("Epsilon").fill("4")
    page.get_by_label("Delta").fill("1e-6")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_text("It computes load from the columns of each row.").wait_for()
    ana.pictures("sites-blocks-compose")
    page.get_by_label("JSON (for experts)").check()
    page.locator("#raw").wait_for()
    page.get_by_label("the form").check()
    page.get_by_role("checkbox", name="load").wait_for()
    assert page.get_by_role("checkbox", name="load").is_checked()
    expect(page.get_by_label("New columns")).to_have_value("load = (bmi * glucose) / 100")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_role("button", name="Put it up").click()
    page.get_by_role("heading", name="How it went").wait_for(timeout=400_000)
    page.get_by_text("5 of 5 rounds").wait_for()
    page.get_by_role("heading", name="Weights").wait_for()
    ana.pictures("sites-blocks")
    expect(page.locator("main")).to_contain_text("load", use_inner_text=True)

    ana.open("/ask")
    page.get_by_label("Kind").select_option("query")
    page.locator("#statistic").select_option("mean")
    page.get_by_label("New columns").fill("load = bmi * glucose / 100")
    page.get_by_label("New columns").blur()
    page.locator("#column").select_option("load")
    page.get_by_label("ward").check()
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_role("button", name="Put it up").click()
    page.get_by_role("heading", name="By group").wait_for()

    north = steward("north")
    north.open("/requests")
    north.page.get_by_text("query").first.wait_for()
    north.pictures("steward-blocks")


def test_a_steward_sees_what_was_refused_and_what_is_left(
    there: Institutions, steward: Callable[[str], Visitor]
) -> None:
    release = there.server.query("patients", "count", epsilon=1, noise="coordinator", name="exact totals", timeout=120)
    assert set(release.extra["coverage"]["missing"]) == {"south"}
    south = steward("south")
    page = south.page
    page.get_by_text("The coordinator is reached").wait_for()
    page.get_by_text("allows this only with noise added by the site").first.wait_for()
    for address, words in (
        ("/datasets", "says whose a row is; never asked for"),
        ("/policy", "noise is added here, before anything leaves"),
        ("/log", "The audit log is whole"),
        ("/requests", "refused"),
    ):
        south.open(address)
        page.get_by_text(words).first.wait_for()
    asked = [str(link.get_attribute("href")) for link in page.locator("tbody a").all()]
    Bundles(there.folder / "site-south" / "models").publish("speed", BUNDLE, origin="a/1")
    south.expected = {404}
    examples = {"task": [address.rsplit("/", 1)[1] for address in asked], "name": ["speed"]}
    for address in (*pages(south, put_on, **examples), "/requests/none"):
        south.open(address)
        place = f"request-{asked.index(address)}" if address in asked else address.strip("/").replace("/", "-")
        south.pictures(f"steward-{place or 'overview'}")
    page.set_viewport_size(PHONE)
    for address in asked:  # what was decided, and what can be decided now, before anything is scrolled
        south.open(address)
        told = [page.locator("main .tag").first, page.get_by_role("button", name="Show what this would allow")]
        for box in (each.bounding_box() for each in told):
            assert box is not None
            assert box["y"] + box["height"] <= PHONE["height"]
    page.set_viewport_size(DESK)
    south.open("/requests")
    page.get_by_role("row").filter(has_text="refused").first.get_by_role("link").click()
    page.get_by_role("heading", name="Your decision").wait_for()
    page.get_by_role("button", name="Show what this would allow").click()
    page.get_by_text("exact totals leave this site, and the coordinator adds the noise.").wait_for()
    south.pictures("steward-decision")
    page.get_by_role("button", name="Yes, decide so").click()
    page.get_by_role("button", name="Take it back").wait_for()
    again = there.server.query("patients", "count", epsilon=1, noise="coordinator", name="exact totals", timeout=120)
    assert again.extra["coverage"]["missing"] == {}
    page.get_by_role("button", name="Take it back").click()
    page.get_by_role("button", name="Yes, decide so").click()
    page.get_by_text("allows nothing from now on").wait_for()
    south.open("/policy")
    page.get_by_role("button", name="Let it hold again").wait_for()
    south.pictures("steward-policy-ended")
    (there.folder / "site-south" / "policy.toml").write_text("[[allow]]\nwho = 1\n")
    south.open("/policy")
    page.get_by_text("everything is refused until that is mended").wait_for()
    south.picture("steward-policy-wrong")


def test_a_data_set_is_declared_from_the_first_line_of_its_file(
    steward: Callable[[str], Visitor], tmp_path: Path
) -> None:
    file = tmp_path / "heights.csv"
    file.write_text("Patient-ID;Größe (cm);note\n1;181;secret words\n", encoding="windows-1252")
    north = steward("north")
    sent = list[str]()
    north.page.on("request", lambda request: sent.append(request.post_data or ""))
    north.open("/datasets")
    north.page.get_by_role("link", name="Declare another one").click()
    north.page.get_by_label("The file").set_input_files(file)
    expect(north.page.locator(".note.bad")).to_contain_text("not text in utf-8")
    expect(north.page.locator("#header")).to_have_value("")
    north.pictures("steward-declare-encoding")
    north.page.get_by_label("Its encoding").select_option("windows-1252")
    expect(north.page.locator("#header")).to_have_value("Patient-ID;Größe (cm);note")
    expect(north.page.locator(".note.bad")).to_have_count(0)
    north.expected = {422}
    north.page.get_by_role("button", name="Show its columns").click()
    expect(north.page.locator(".note.bad")).to_contain_text("choose it above")
    north.page.get_by_label("Between two names").select_option("semicolon")
    north.pictures("steward-declare")
    north.page.get_by_role("button", name="Show its columns").click()
    north.page.get_by_role("heading", name="3 columns").wait_for()
    north.page.get_by_label("What is hidden").select_option("person")
    for column, kind in (("Patient-ID", "key"), ("Größe (cm)", "float"), ("note", "absent")):
        north.page.get_by_role("group", name=column, exact=True).get_by_label("What it is").select_option(kind)
    show = north.page.get_by_role("button", name="Show the declaration")
    show.click()
    north.page.get_by_role("heading", name="The declaration").wait_for()
    height = north.page.get_by_role("group", name="Größe (cm)", exact=True)
    height.get_by_label("Least").fill("250")
    height.get_by_label("Greatest").fill("30")
    north.expected = {422}
    show.click()
    north.page.locator(".note.bad").wait_for()
    north.pictures("steward-declare-refused")
    height.get_by_label("Least").fill("30")
    height.get_by_label("Greatest").fill("250")
    height.get_by_label("How it is written").fill("1.234,5")
    show.click()
    north.page.get_by_label("The lines of schema.toml").get_by_text("high = 250").wait_for()
    expect(north.page.get_by_label("The lines of source.toml")).to_contain_text(
        'groesse_cm = "Größe (cm)"', use_inner_text=True
    )
    expect(north.page.get_by_label("The lines of source.toml")).to_contain_text('decimal_comma = ["groesse_cm"]')
    north.pictures("steward-declared")
    assert not any("secret" in text for text in sent)


def test_nobody_else_comes_in_to_a_sites_pages(there: Institutions, visit: Callable[..., Visitor]) -> None:
    address = there.pages["site north"]
    stranger = visit(address.partition("/?")[0])
    stranger.expected = {401}
    stranger.open("/requests")
    stranger.page.get_by_text("Open the address that").wait_for()
    stranger.open(address)
    stranger.page.get_by_text("What was asked last").wait_for()
    other = visit(address.partition("/?")[0])
    other.expected = {401}
    other.open(address)
    other.page.get_by_text("This address was used before").wait_for()


def test_a_site_that_is_stopped_is_shown_as_away(there: Institutions, ana: Visitor) -> None:
    ana.open("/sites")
    ana.page.locator("#site-south").get_by_text("connected", exact=True).wait_for()
    assert there.stop("south") == 0
    ana.page.locator("#site-south").get_by_text("away", exact=True).wait_for()  # by itself
    ana.pictures("sites-away")
    end = time.monotonic() + 120
    while there.state("south") != "away":
        assert time.monotonic() < end
        time.sleep(0.1)
    release = there.server.query("patients", "count", epsilon=1, patience=15, name="without one", timeout=120)
    assert "not linked" in release.extra["coverage"]["missing"]["south"]
    ana.open("/ended")
    ana.page.get_by_role("link", name="without one").click()
    ana.page.get_by_text("1 of 2 sites are in it.").wait_for()
    ana.picture("sites-missing")

"""Before a question is put up: its error over epsilon as a picture one moves along, and the question as text."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes
from tests.support.coordinator import AGES, PETS, Front
from tests.support.federation import Gathering
from tests.support.forms import composing, filled, write
from tests.support.site_home import site_home
from thebes.coordinator.api.routes import interface
from thebes.coordinator.auth.accounts import ADMIN
from thebes.requestor.curve import drawn
from thebes.requestor.server import Server
from thebes.site.algorithm_process import Office
from thebes.tasks import registry
from thebes.tasks.rehearsal import HARMLESS
from thebes.web.coordinator import epsilon_curve
from thebes.web.coordinator.copied import copies
from thebes.web.coordinator.pages import put_on

COLUMNS = {"age": {"type": "float", "description": "years"}}
COUNT: dict[str, Any] = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "patience": 2.0}
RULE = '[[allow]]\nrequestors = ["{who}"]\ndatasets = ["patients"]\nkinds = ["query"]\nepsilon = 1.5\n'
SHOWN: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 1,
    "columns": {"age": {"type": "integer", "low": 0, "high": 100}},
}
COUNTED = {**AGES, "aggregator": "count", "missing": "count"}


def as_json(document: dict[str, Any]) -> dict[str, str]:
    return {"kind": document["type"], "mode": "json", "was": "json", "raw": json.dumps(document)}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with composing(tmp_path / "home", "profile", "demographics", COLUMNS) as made:
        yield made


# --- the curve --------------------------------------------------------------------------------------------------


def test_a_count_follows_from_its_noise_and_a_median_from_made_up_people() -> None:
    count = drawn(registry.check(COUNTED), [0.5, 1.0], 500)
    assert [(point.basis, point.half_width) for point in count] == [("formula", 6.0), ("formula", 3.0)]
    median = drawn(registry.check(AGES), [0.1, 10.0], 500, repeats=60)
    far, near = (point.half_width for point in median)
    assert {point.basis for point in median} == {"rehearsal"}
    assert far is not None
    assert near is not None
    assert near < far / 3


def test_a_curve_is_rows_of_a_table_and_text_and_names_whose_cap_is_passed() -> None:
    found = drawn(registry.check(COUNTED), [0.5, 2.0], None, caps={"north": 1.5})
    assert [row["refused_by"] for row in found.rows] == [[], ["north"]]
    assert "beyond the cap of north" in str(found).splitlines()[2]
    assert len(found) == 2


def test_a_server_s_curve_takes_the_sites_schemas_and_their_caps() -> None:
    class Spoken:
        url = "here"

        def quote(self, document: Any) -> dict[str, Any]:
            verdict = {"allowed": True, "reason": "", "message": "", "left": {"epsilon": 1.5, "delta": 0.0}}
            return {"price": {"epsilon": 1.0, "delta": 0.0, "unit": "person"}, "verdicts": {"north": verdict}}

        def sites(self) -> list[dict[str, Any]]:
            return [{"name": "north", "state": "connected", "datasets": {"patients": {"schema": SHOWN}}}]

    found = Server(Spoken()).curve(COUNT, [0.5, 2.0], rows_about=200)  # type: ignore[arg-type]
    assert [(point.basis, point.epsilon) for point in found] == [("formula", 0.5), ("formula", 2.0)]
    assert found.caps == {"north": 1.5}


def test_the_page_draws_stops_that_keys_reach_and_puts_the_chosen_one_into_the_form(front: Front) -> None:
    drawn_ = write(front, "/ask/curve", as_json(COUNTED))
    stops = re.findall(r'name="chosen" value="([^"]+)" data-stop="(\d)"', drawn_)
    assert [float(value) for value, _ in stops] == epsilon_curve.around(1.0)
    assert 'value="1.0" data-stop="3" checked' in drawn_
    assert '<svg role="img"' in drawn_
    assert "This follows from the noise alone" in drawn_
    answer = write(front, "/ask/epsilon", {**as_json(COUNTED), "chosen": "0.5"})
    assert json.loads(filled(answer)["raw"])["epsilon"] == 0.5
    form = filled(front.client.get("/ask?kind=basic").text)
    typed = {**form, "mode": "form", "was": "form", "bound-0-low": "0", "bound-0-high": "120"}
    body = filled(write(front, "/ask/fields", {**typed, "column": ["age"]}))
    body |= {"bound-0-low": "0", "bound-0-high": "120", "epsilon": "1"}
    assert filled(write(front, "/ask/epsilon", {**body, "chosen": "0.25"}))["epsilon"] == "0.25"
    assert filled(write(front, "/ask/epsilon", {**body, "chosen": "much"}))["epsilon"] == "1"


def test_a_site_s_cap_is_drawn_and_told_and_its_ledger_stays_as_it_is(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "north", policy=RULE.format(who=ADMIN.name)), "north")

    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        return office.answer(message)

    here = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}

    async def scenario() -> list[str]:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=answer)
            app = interface(world.service, largest_body=2**20, pages=put_on)
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver", headers=here) as client:
                draft = {**as_json({**COUNT, "epsilon": 1.0}), "rows_about": "400"}
                stranger = await client.post("/ask/curve", json=draft)
                await client.post("/sign-in", json={"token": world.home.admin_token, "then": "/ask"})
                wrong = await client.post("/ask/rehearse", json={**draft, "rows_about": "many"})
                told = [(await client.post(f"/ask/{path}", json=draft)).text for path in ("curve", "rehearse", "check")]
                return [stranger.text, wrong.text, *told]

    head = office.ledger.head()
    stranger, wrong, curve, rehearsed, checked = asyncio.run(scenario())
    assert "You are not signed in" in stranger
    assert "rows_about" in wrong
    assert "north allows 1.5" in curve
    assert curve.count("beyond the cap of north") == 3
    assert "With 400 made-up rows" in " ".join(rehearsed.split())
    assert 'id="curve"' in checked
    assert office.ledger.head() == head


def test_what_is_learned_is_told_as_what_goes_wrong() -> None:
    document = {
        "type": "train", "dataset": "patients", "model": "LogisticRegression", "inputs": ["age"], "output": "ill",
        "epsilon": 4.0, "delta": 1e-6, "rounds": 5,
    }  # fmt: skip
    columns = {**SHOWN["columns"], "ill": {"type": "boolean", "values": [False, True]}}
    from thebes.data.schema import schema_of

    schema = schema_of({"unit": "person", "columns": columns})
    found = drawn(registry.check(document), [0.05, HARMLESS], 2000, schemas={"north": schema}, repeats=12)
    far, near = (point.half_width for point in found)
    assert {point.of for point in found} == {"the share whose label is told wrong"}
    assert near == pytest.approx(0.25, abs=0.04)  # a column that goes with the label for half of them tells 3 of 4
    assert far is not None
    assert far > near


# --- the question as text ---------------------------------------------------------------------------------------


def run(text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run copied Python, and return the document that it puts up."""
    heard: list[dict[str, Any]] = []

    class Handle:
        def wait(self) -> str:
            return "the release"

    class Spoken:
        def quote(self, document: dict[str, Any]) -> str:
            return "the price"

        def submit(self, document: dict[str, Any]) -> Handle:
            heard.append(document)
            return Handle()

        def sql(self, text: str, **fields: Any) -> None:
            from thebes.data.schema import schema_of
            from thebes.sql.question import read

            heard.append(read(text, schema_of(SHOWN), **fields).document)

    monkeypatch.setenv("THEBES_TOKEN", "t")
    monkeypatch.setattr(thebes, "connect", lambda url, token: Spoken())
    exec(compile(text, "copied", "exec"), {})
    return heard[0]


@pytest.mark.parametrize("document", [AGES, PETS, {**AGES, "purpose": "To 'say' \"so\": é \\n THE_QUESTION"}])
def test_copied_text_puts_up_the_document_of_the_page(
    document: dict[str, Any], front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write(front, "/ask/check", as_json(document))
    said = re.search(r"Digest <code>([0-9a-f]{64})</code>", page)
    assert said is not None
    texts = dict(
        re.findall(r'<pre tabindex="0" id="copy-\d" aria-label="The question as (\w+)">(.*?)</pre>', page, re.S)
    )
    assert list(texts) == ["Python", "JSON", "command"]
    assert registry.check(run(unescape(texts["Python"]), monkeypatch)).digest == said[1]
    assert registry.check(json.loads(unescape(texts["JSON"]))).digest == said[1]
    heard = unescape(texts["command"]).split("THE_QUESTION'\n")[1].split("\nTHE_QUESTION\n")[0]
    assert registry.check(json.loads(heard)).digest == said[1]
    assert "thebes task submit question.json --coordinator http://testserver" in unescape(texts["command"])


def test_a_question_is_said_in_sql_only_where_a_select_gives_that_very_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from thebes.data.schema import schema_of

    def sql(**fields: Any) -> str | None:
        checked = registry.check({"type": "query", "dataset": "patients", "epsilon": 0.5, **fields})
        found = copies(checked.as_json(), checked.digest, "http://here", schema_of(SHOWN)).get("SQL")
        assert found is None or registry.check(run(found, monkeypatch)).digest == checked.digest
        return found

    several = {"s1": {"statistic": "count"}, "s2": {"statistic": "mean", "column": "age"}}
    found = sql(statistics=several, where="age > 40", sites=["north"])
    assert found is not None
    assert "SELECT COUNT(*), AVG(age)\nFROM patients\nWHERE age > 40" in found
    assert sql(statistics={"older": {"statistic": "count"}}) is None
    assert sql(statistic="histogram", column="age", bins=5) is None

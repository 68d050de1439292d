"""The coordinator's pages in process: what they show, whom they let write, and that strangers' words stay words."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import AGES, PETS, Front
from tests.support.forms import filled
from thebes import web as pages
from thebes.coordinator.api.middleware import STRANGERS
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.storage.schema import ENDED
from thebes.tasks import drawings
from thebes.web.coordinator.log import fingerprint
from thebes.web.coordinator.words import kind as kind_of
from thebes.wire.refusals import NotSignedIn

TEMPLATES = Path(pages.__file__).parent / "templates"
HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
PASSWORD = "correct horse battery"
EVIL = "<img src=x onerror=alert(1)>\u202e'\"&{{7*7}}"
FORM = {
    "mode": "form",
    "was": "form",
    "kind": "basic",
    "aggregator": "median",
    "table": "profile.demographics",
    "column": "age",
    "featurizer": "SELECT age FROM profile.demographics",
    "made": "SELECT age FROM profile.demographics",
    "bound-0-column": "age",
    "bound-0-kind": "range",
    "bound-0-low": "0",
    "bound-0-high": "120",
    "epsilon": "1",
    "min_count": "20",
}
#: of pages that everybody may see; one of yours joins them
ADDRESSES = ("/", "/ended", "/ask", "/users", "/schemas", "/groups", "/log", "/sign-in")
TABLES = {
    "demographics": {
        "description": "what people say",
        "columns": {
            "age": {"type": "float", "description": "years"},
            "city": {"type": "string", "description": ""},
            "order": {"type": "boolean", "description": ""},
        },
    }
}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        made.client.post("/api/schema", json={"app": "profile", "tables": TABLES}, headers=made.admin)
        yield made


def write(front: Front, path: str, body: dict[str, Any] | None = None) -> Any:
    return front.client.post(path, json=body or {}, headers=HERE)


def sign_in(front: Front, name: str = "", role: Role = Role.REQUESTOR) -> None:
    if name:
        front.service.accounts.add(name, PASSWORD, role)
        answer = write(front, "/sign-in", {"username": name, "password": PASSWORD, "then": "/ask"})
    else:
        answer = write(front, "/sign-in", {"token": front.admin_token})
    assert "hx-redirect" in answer.headers, answer.text


def done(front: Front, document: dict[str, Any], payload: dict[str, Any]) -> str:
    task_id = front.post(document)
    front.fill(task_id, document["min_count"], payload)
    front.closing.step()
    assert front.task(task_id)["status"] == "done"
    return task_id


# --- looking ------------------------------------------------------------------------------------------------


def test_open_tasks_tell_who_asks_what_it_costs_and_how_far_they_are(front: Front) -> None:
    task_id = front.post({**AGES, "name": "Median age", "purpose": "To plan bus lines"})
    front.fill(task_id, 5, {"age": 40.0})
    page = front.client.get("/").text
    asker = front.task(task_id)["requestor"]
    for words in ("Median age", "To plan bus lines", asker, "epsilon 1", "73.2 %", "this server is trusted"):
        assert words in page
    assert '<progress max="12" value="5"' in page
    assert f'href="/task/{task_id}"' in page
    assert 'hx-trigger="every 3s"' in page


def test_what_a_task_is_is_said_once(front: Front) -> None:
    named = front.post({**PETS, "name": "Our pets"})
    page = front.client.get(f"/task/{named}").text
    assert "<dd>Perturbed rows of species</dd>" in page
    assert '<span class="tag">Perturbed rows of species</span>' in front.client.get("/").text
    front.client.delete(f"/api/task/{named}", headers=front.admin)
    front.post(PETS)
    listed = front.client.get("/").text
    assert "Perturbed rows of species (" in listed
    assert listed.count("Perturbed rows") == 1
    many = {"type": "gradient", "outputs": ["a", "b", "c", "d", "e"]}
    assert kind_of(many) == "A network for a, b, c and 2 more"
    assert kind_of({"type": "basic", "aggregator": "median"}) == "One statistic: Median"


def test_a_part_of_a_page_comes_without_its_frame(front: Front) -> None:
    part = front.client.get("/", headers={"hx-request-type": "partial"}).text
    assert "<html" not in part
    assert 'id="tasks"' in part


def test_ended_tasks_are_on_pages_of_their_own(front: Front) -> None:
    ids = []
    for number in range(23):
        ids.append(front.post({**AGES, "name": f"task number {number}"}))
        front.clock.move(minutes=1)
        front.client.delete(f"/api/task/{ids[-1]}", headers=front.admin)
    first, second = front.client.get("/ended").text, front.client.get("/ended?page=2").text
    assert "task number 22" in first
    assert "task number 2<" not in first
    assert "Page 1 of 2" in first
    assert "task number 2<" in second
    assert second == front.client.get("/ended?page=999").text
    assert first == front.client.get("/ended?page=-1'").text
    assert ids[0] not in front.client.get("/").text


def test_a_task_shows_its_document_its_digest_and_what_people_are_told(front: Front) -> None:
    task_id = front.post({**AGES, "name": "Median age"})
    page = front.client.get(f"/task/{task_id}").text
    assert front.task(task_id)["digest"] in page
    assert "Nothing leaves before you agree." in page
    assert '<span class="key">&#34;featurizer&#34;</span>' in page
    assert f'hx-get="/task/{task_id}/standing" hx-trigger="every 1s"' in page
    assert "Cancel this task" not in page


def test_an_ended_task_is_not_asked_after_any_more(front: Front) -> None:
    task_id = done(front, AGES, {"age": 40.0})
    part = front.client.get(f"/task/{task_id}/standing").text
    assert "hx-trigger" not in part
    assert "The answer is there." in part


@pytest.mark.parametrize(
    "path", ["/task/none", "/task/none/standing", "/task/%00", "/task/none/release.csv", "/ask?like=%00"]
)
def test_what_is_not_there_is_a_page_that_says_so(front: Front, path: str) -> None:
    answer = front.client.get(path)
    assert answer.status_code == 404
    assert "There is no such task" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_a_browser_is_shown_a_page_where_there_is_none_and_a_program_a_problem(front: Front) -> None:
    for path in ("/nothing", "/ask/check", "/static/nothing.js"):
        shown = front.client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
        assert shown.status_code == 404
        assert "There is no page at this address" in shown.text
        assert "Sign in</a> or go" not in shown.text, "that would not help"
        assert '<a href="/">' in shown.text
    for path, accepted in (("/nothing", "*/*"), ("/api/nothing", "text/html")):
        told = front.client.get(path, headers={"Accept": accepted})
        assert told.status_code == 404
        assert told.headers["content-type"] == "application/problem+json"
        assert "/openapi.json" in told.json()["detail"]
    assert front.client.get("/ask/check").status_code == 405


def test_strangers_words_stay_words_on_every_page(front: Front) -> None:
    sets = {"age": {"type": "set", "values": [EVIL, "=1+1"]}}
    named = {"name": EVIL, "purpose": EVIL}
    histogram = done(front, {**AGES, **named, "aggregator": "histogram", "bounds": sets}, {"age": 0})
    front.post({**AGES, **named})
    told = {"type": "float", "description": EVIL}
    front.client.post(
        "/api/schema",
        json={
            "app": "evil",
            "tables": {"t": {"description": EVIL, "columns": {"c": told}}},
        },
        headers=front.admin,
    )
    sign_in(front)
    pages = [
        "/",
        "/ended",
        "/log",
        "/schemas",
        "/users",
        "/device",
        "/ask",
        f"/ask?like={histogram}",
        f"/task/{histogram}",
    ]
    for path in pages:
        page = front.client.get(path).text
        assert "<img" not in page, path
        assert "\u202e" not in page, path
        assert "49" not in re.findall(r"alert\(1\)[^<]{0,20}(49)", page), path
    verdict = write(front, "/ask/check", {**FORM, "name": EVIL, "bound-0-column": EVIL, "epsilon": EVIL}).text
    assert "<img" not in verdict
    assert "\u202e" not in verdict


def test_no_page_needs_more_than_the_strict_policy_allows(front: Front) -> None:
    task_id = done(front, AGES, {"age": 40.0})
    sign_in(front)
    for path in (*ADDRESSES, f"/task/{task_id}"):
        answer = front.client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"\sstyle=|\son[a-z]+=|<script(?![^>]*src=\"/static/)|javascript:|https?://", answer.text)


def test_sql_on_a_page_is_refused_in_words_and_stays_words(front: Front) -> None:
    shown = front.client.get("/ask/sql", params={"sql": "<script>alert(1)</script>"}).text
    assert "<script>alert(1)" not in shown
    sign_in(front)
    for text, said in (
        ("", "must be a SELECT"),
        ("DELETE FROM patients", "one SELECT over a data set"),
        ("SELECT COUNT(*) FROM nowhere", "data sets there are: none"),
        ("SELECT <script>alert(1)</script> FROM t", "is not SQL that can be read"),
    ):
        for path in ("/ask/sql/check", "/ask/sql/quote", "/ask/sql"):
            told = write(front, path, {"sql": text, "epsilon": "1", "delta": "0"})
            assert said in told.text, path
            assert "<script>" not in told.text
            assert "HX-Redirect" not in told.headers
    told = write(front, "/ask/sql/check", {"sql": "SELECT COUNT(*) FROM t", "max_groups_per_person": "inf"}).text
    assert "data sets there are: none" in told
    task_id = front.post(AGES)
    told = front.client.get(f"/task/{task_id}/sql", params={"sql": "SELECT '<script>'"})
    assert told.status_code == 200
    assert "this task asked people" in told.text
    assert "<script>'" not in told.text
    assert front.client.get("/task/none/sql").status_code == 404


def test_every_page_can_be_read_aloud(front: Front) -> None:
    """One h1, every field labelled, every drawing titled, every head of a table said to be one."""
    task_id = done(front, PETS, {"species": 0})
    sign_in(front)
    for path in (*ADDRESSES, f"/task/{task_id}"):
        page = front.client.get(path).text
        assert len(re.findall(r"<h1", page)) == 1, path
        for field in re.findall(r"<(?:input|select|textarea)\b[^>]*>", page):
            if 'type="hidden"' in field or 'type="checkbox"' in field or 'type="radio"' in field:
                continue
            found = re.search(r'\sid="([^"]+)"', field)
            assert "aria-label=" in field or (found and f'for="{found[1]}"' in page), (path, field)
        assert page.count("<svg") == page.count("<title>") - 1, path
        assert "<th>" not in page, path


@pytest.mark.slow
def test_the_log_shows_its_key_as_people_compare_it(front: Front) -> None:
    task_id = front.post(AGES)
    told = front.client.get("/api/log").json()
    page = front.client.get("/log").text
    assert fingerprint(told["key"]) in page
    assert re.fullmatch(r"([0-9a-f]{4} ){15}[0-9a-f]{4}", fingerprint(told["key"]))
    for words in (told["key"], told["head"], task_id, front.task(task_id)["digest"]):
        assert words in page


# --- results ------------------------------------------------------------------------------------------------


def _without(document: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != field}


def results() -> list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]]:
    x = {c: {"type": "range", "low": -1, "high": 1} for c in ("x0", "x1")}
    labels = {"y": {"type": "set", "values": ["no", "yes"]}}
    model = {
        "type": "integrated",
        "epsilon": 5.0,
        "delta": 1e-6,
        "server": "trusted",
        "min_count": 40,
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "inputs": ["x0", "x1"],
        "output": "y",
    }
    classes = {**model, "bounds": {**x, **labels}}
    row, number = {"x0": 0.5, "x1": -0.5, "y": 1}, {"x0": 0.5, "x1": -0.5, "y": 3.0}
    values = {"age": {"type": "set", "values": ["young", "old"]}}
    return [
        (AGES, {"age": 40.0}, ("Error bar", "95 %", "<svg")),
        ({**AGES, "aggregator": "mean"}, {"age": 40.0}, ("Error bar", "99 %", "50 %")),
        ({**AGES, "aggregator": "histogram", "bounds": values}, {"age": 0}, ("Counts", "young", "old", "error")),
        ({**AGES, "aggregator": "histogram", "bins": 5}, {"age": 40.0}, ("Counts",)),
        ({**_without(AGES, "bounds"), "epsilon": 60.0}, {"age": 40.0}, ("The answer", "estimated")),
        (
            {**_without(AGES, "bounds"), "epsilon": 60.0, "aggregator": "mean"},
            {"age": 40.0},
            ("Error bar", "of all values, also those outside", "Declare bounds"),
        ),
        ({**AGES, "missing": "count"}, {"age": None}, ("Without a value",)),
        (PETS, {"species": 0}, ("species", "cat", "dog", "error", "No single one can be believed")),
        (
            {**PETS, "bounds": {"species": {"type": "range", "low": 0, "high": 10, "default": 5}}},
            {"species": 4},
            ("The mean among those who took part",),
        ),
        ({**classes, "model": "GaussianNB"}, row, ("How frequent each class is", "standard deviation", "y = yes")),
        ({**classes, "model": "LogisticRegression"}, row, ("Coefficients", "log-odds", "(constant)")),
        ({**classes, "model": "RandomForestClassifier"}, row, ("trees of depth", "Classes, over all leaves")),
        (
            {**model, "model": "RandomForestRegressor", "bounds": {**x, "y": {"type": "range", "low": 0, "high": 9}}},
            number,
            ("trees of depth", "What leaves say", "highest"),
        ),
        (
            {**model, "model": "LinearRegression", "bounds": {**x, "y": {"type": "range", "low": 0, "high": 9}}},
            number,
            ("Coefficients", "x0", "x1", "(constant)"),
        ),
    ]


@pytest.mark.few(4)
@pytest.mark.parametrize(("document", "payload", "words"), results(), ids=lambda v: "")
def test_every_kind_of_answer_has_its_page_and_its_table(
    front: Front, document: dict[str, Any], payload: dict[str, Any], words: tuple[str, ...]
) -> None:
    task_id = done(front, document, payload)
    page = front.client.get(f"/task/{task_id}")
    assert page.status_code == 200
    for word in (*words, "Certificate", "must be trusted"):
        assert word in page.text
    release = front.client.get(f"/task/{task_id}/release.json")
    assert release.json() == front.task(task_id)["result"]
    assert release.headers["content-disposition"] == f'attachment; filename="thebes-{task_id[:8]}-release.json"'
    table = list(csv.reader(io.StringIO(front.client.get(f"/task/{task_id}/release.csv").text)))
    assert len(table) > 1
    assert {len(row) for row in table} == {len(table[0])}
    assert front.client.get(f"/task/{task_id}/document.json").json() == front.task(task_id)["document"]


def test_a_network_is_summed_up_layer_by_layer(front: Front) -> None:
    torch = pytest.importorskip("torch")
    from thebes.task import gradient

    document = dict(
        gradient(
            torch.nn.Linear(2, 1),
            torch.nn.MSELoss(),
            "SELECT x0, x1, z FROM profile.example",
            inputs=["x0", "x1"],
            outputs=["z"],
            epsilon=4.0,
            delta=1e-5,
            bounds=dict.fromkeys(("x0", "x1", "z"), (-1.0, 1.0)),
            min_count=12,
            rounds=2,
        )
    )
    task_id = front.post(document)
    assert "Round 1 of 2" in front.client.get(f"/task/{task_id}").text
    for number in (1, 2):
        front.fill(task_id, 12, payload_of(front, task_id))
        front.closing.step()
        if number == 1:
            assert "Round 2 of 2" in front.client.get(f"/task/{task_id}/standing").text
    page = front.client.get(f"/task/{task_id}").text
    assert "3 weights over x0, x1" in page
    assert "1 × 2" in page


def payload_of(front: Front, task_id: str) -> dict[str, Any]:
    """A contribution of a gradient task, made by its owner's half over one made-up row."""
    import numpy as np

    from thebes.coordinator.tasks.phase_end import setting
    from thebes.privacy.randomness import system
    from thebes.simulation.featurizer import featurize
    from thebes.simulation.tables import people_of
    from thebes.tasks import registry
    from thebes.tasks.audit.recorded_claim import RecordedClaim
    from thebes.tasks.protocols import Ask

    asked = front.ask(task_id)
    document: Any = registry.check(front.task(task_id)["document"])
    rows = featurize(document.featurizer, people_of({name: np.array([0.5]) for name in ("x0", "x1", "z")}))
    told = {name: asked[name] for name in ("ask_id", "part", "phase", "payload")}
    half = registry.owner(document, simulated=True)
    sent = half.contribute(document, Ask(**told, expires_at=None), rows, RecordedClaim(), randomness=system())
    return next(iter(sent.payloads(registry.aggregator(document, setting()).layout(asked["part"]))))


def test_an_ensemble_is_summed_up_by_its_labels() -> None:
    import numpy as np

    import thebes
    from thebes.tasks import registry
    from thebes.web.coordinator import result

    draw = np.random.default_rng(1)
    rows = {"age": draw.uniform(17, 90, 3000), "income": np.where(draw.random(3000) < 0.3, "high", "low")}
    document: Any = registry.check(
        {
            "type": "ensemble",
            "method": "vote",
            "epsilon": 4.0,
            "featurizer": "SELECT age, income FROM census.person",
            "label": "income",
            "bounds": {
                "age": {"type": "range", "low": 17, "high": 90},
                "income": {"type": "set", "values": ["low", "high"]},
            },
        }
    )
    body = json.dumps(thebes.simulate(document, rows, seed=1).as_json())
    told = result.shown(document, body)
    assert [section.title for section in told.sections] == [
        "Classifier",
        "Where ranges were cut",
        "What the model is worth",
    ]
    assert told.sections[0].words.startswith("8 small models vote. ")
    assert told.sections[0].picture is not None
    assert drawings.chart(told.sections[0].picture).count('class="error"') == 6  # two error bars of three strokes
    table = list(csv.reader(io.StringIO(result.table_of(document, body))))
    assert [row[0] for row in table] == ["label", "low", "high"]
    odds: Any = registry.check({**document.as_json(), "method": "odds"})
    body = json.dumps(thebes.simulate(odds, rows, seed=1).as_json())
    assert result.shown(odds, body).sections[0].words.startswith("1 small table of odds, added up. ")


def test_an_answer_that_could_not_be_given_says_why(front: Front) -> None:
    document = {**AGES, "bounds": {}, "min_count": 12, "epsilon": 0.01}
    pages = []
    for _ in range(5):
        task_id = done(front, document, {"age": 40.0})
        pages.append(front.client.get(f"/task/{task_id}").text)
        if front.task(task_id)["result"]["value"] is None:
            assert "No answer:" in pages[-1]
            assert "release.csv" not in pages[-1]
            return
    pytest.fail("noise should have hidden the range of twelve people at epsilon 0.01")


def test_a_table_cannot_run_in_a_spreadsheet(front: Front) -> None:
    values = {"age": {"type": "set", "values": ["=HYPERLINK(1)", "@x", "-3 or less", " ＝1", "a;=1", "plain"]}}
    task_id = done(front, {**AGES, "aggregator": "histogram", "bounds": values}, {"age": 0})
    text = front.client.get(f"/task/{task_id}/release.csv").text
    table = list(csv.reader(io.StringIO(text)))
    assert [row[0] for row in table[1:]] == ["'=HYPERLINK(1)", "'@x", "'-3 or less", "' ＝1", "a;=1", "plain"]
    assert '"a;=1",' in text  # quoted, so that it is one cell wherever it is opened
    assert all(re.fullmatch(r"-?[\d.]+", row[1]) for row in table[1:])


# --- signing in ---------------------------------------------------------------------------------------------


def test_a_session_is_a_cookie_that_no_script_reads(front: Front) -> None:
    front.service.accounts.add("ana", PASSWORD, Role.REQUESTOR)
    answer = write(front, "/sign-in", {"username": "ana", "password": PASSWORD, "then": "/ask"})
    assert answer.headers["hx-redirect"] == "/ask"
    told = answer.headers["set-cookie"]
    assert "HttpOnly" in told
    assert "SameSite=strict" in told
    assert "expires=Tue, 01 Jan 2030 12:15:00 GMT" in told
    assert "Secure" not in told
    page = front.client.get("/").text
    assert "ana" in page
    assert "Sign out" in page
    assert "requestor" in page
    token = front.client.cookies.get("thebes_asking_80")
    assert token is not None
    assert token not in page
    assert "2030-01-01 12:15 UTC" in front.client.get("/sign-in").text
    write(front, "/sign-out")
    assert "Sign out" not in front.client.get("/").text


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["ana", ""])
def test_signing_out_ends_the_session_wherever_a_copy_of_it_is(front: Front, tmp_path: Path, name: str) -> None:
    sign_in(front, name)
    token = front.client.cookies["thebes_asking_80"]
    copied, bearer = {"Cookie": f"thebes_asking_80={token}"}, {"Authorization": f"Bearer {token}"}
    large = json.dumps({**AGES, "purpose": "x" * STRANGERS})
    kind = {"Content-Type": "application/json"}

    def let_in(at: Front) -> list[bool]:
        at.client.cookies.clear()
        return [
            "Sign out" in at.client.get("/", headers=copied).text,
            at.client.post("/api/task", json=AGES, headers=bearer).status_code == 201,
            at.client.post("/api/check", content=large, headers={**kind, **copied}).status_code == 200,
        ]

    with Front(tmp_path / "home", clock=front.clock) as beside:  # another process on the same home
        assert [let_in(each) for each in (front, beside)] == [[True] * 3] * 2
        sign_in(front)  # a session of its own, which goes on
        others = front.client.cookies["thebes_asking_80"]
        answer = front.client.post("/sign-out", json={}, headers={**HERE, **copied})
        assert (answer.status_code, answer.headers["hx-redirect"]) == (200, "/")
        assert [let_in(each) for each in (front, beside)] == [[False] * 3] * 2
        told = beside.client.post("/api/task", json=AGES, headers=bearer)
        assert (told.status_code, told.json()["detail"]) == (401, "the session was ended; log in again")
        assert "Sign out" in beside.client.get("/", headers={"Cookie": f"thebes_asking_80={others}"}).text
        again = front.client.post("/sign-out", json={}, headers={**HERE, **copied})
        assert again.status_code == 200


def test_a_session_whose_browser_signs_in_anew_has_ended_too(front: Front) -> None:
    """Nobody could sign out of it any more: the browser has forgotten it."""

    def lets_in(token: str) -> bool:
        with suppress(NotSignedIn):
            return front.service.accounts.who(token).name == "ana"
        return False

    sign_in(front, "ana")
    first = front.client.cookies["thebes_asking_80"]
    assert "Try again" in write(front, "/sign-in", {"username": "ana", "password": "wrong wrong wrong"}).text
    assert lets_in(first)
    write(front, "/sign-in", {"username": "ana", "password": PASSWORD})
    second = front.client.cookies["thebes_asking_80"]
    assert (lets_in(first), lets_in(second)) == (False, True)
    write(front, "/sign-in", {"token": second})  # the same once more
    assert front.client.cookies["thebes_asking_80"] == second
    assert lets_in(second)


@pytest.mark.slow
def test_signing_out_says_which_session_ends(front: Front) -> None:
    sign_in(front)
    assert "your other sessions go on" in front.client.get("/").text


def test_what_was_ended_is_forgotten_when_it_would_count_no_longer_anyway(front: Front) -> None:
    def kept() -> int:
        return len(front.database.read(lambda connection: connection.execute(ENDED.select()).all()))

    for _ in range(3):
        sign_in(front)
        write(front, "/sign-out")
    assert kept() == 3
    front.clock.move(minutes=16)
    sign_in(front)
    write(front, "/sign-out")
    assert kept() == 1


def test_signing_out_with_the_operators_own_token_ends_no_token(front: Front) -> None:
    front.client.cookies.set("thebes_asking_80", front.admin_token)
    assert write(front, "/sign-out").status_code == 200
    assert front.client.post("/api/task", json=AGES, headers=front.admin).status_code == 201


def test_the_operator_s_own_token_is_not_what_the_browser_keeps(front: Front) -> None:
    answer = write(front, "/sign-in", {"token": front.admin_token})
    assert front.admin_token not in answer.headers["set-cookie"]
    assert "expires=" in answer.headers["set-cookie"].lower()
    kept = front.client.cookies.get("thebes_asking_80")
    assert kept is not None
    assert "the operator" in front.client.get("/sign-in").text
    assert front.client.get("/users").status_code == 200
    front.clock.move(minutes=16)
    assert "Sign out" not in front.client.get("/").text


def test_over_https_the_cookie_goes_nowhere_else(front: Front) -> None:
    front.client.base_url = front.client.base_url.copy_with(scheme="https")
    answer = write(front, "/sign-in", {"token": front.admin_token})
    told = answer.headers["set-cookie"]
    assert told.startswith("__Host-thebes_asking=")
    assert "Secure" in told
    assert "Domain" not in told


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"username": "ana", "password": "wrong wrong wrong"}, "no such user with this password"),
        ({"username": "nobody", "password": PASSWORD}, "no such user with this password"),
        ({"username": "ana"}, "Give a user name and a password"),
        ({"token": "no token"}, "not one of this coordinator"),
        ({"username": ["ana"], "password": {"a": 1}}, "Give a user name and a password"),
    ],
)
def test_whoever_cannot_sign_in_is_told_so_in_place(front: Front, body: dict[str, Any], words: str) -> None:
    front.service.accounts.add("ana", PASSWORD, Role.REQUESTOR)
    answer = write(front, "/sign-in", body)
    assert answer.status_code == 200
    assert words in answer.text
    assert "set-cookie" not in answer.headers
    assert PASSWORD not in answer.text


def test_who_may_not_see_a_page_is_led_to_where_they_sign_in(front: Front) -> None:
    answer = front.client.get("/users")
    assert answer.status_code == 401
    assert "You are not signed in" in answer.text
    assert '<a href="/sign-in">Sign in</a> or go' in answer.text


def test_a_form_is_sent_by_our_script_or_not_at_all(front: Front) -> None:
    """Without scripts a browser would put what was typed, passwords too, into the address."""
    assert "form-action 'none'" in front.client.get("/sign-in").headers["content-security-policy"]
    assert "Allow scripts for this address" in front.client.get("/sign-in").text
    forms = [form for page in TEMPLATES.rglob("*.html") for form in re.findall(r"<form[^>]*>", page.read_text())]
    assert len(forms) > 10
    assert not [form for form in forms if " action=" in form or " method=" in form]


@pytest.mark.parametrize("then", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "a b"])
def test_signing_in_leads_to_no_other_server(front: Front, then: str) -> None:
    answer = write(front, "/sign-in", {"token": front.admin_token, "then": then})
    assert answer.headers["hx-redirect"] == "/"


def test_a_session_ends_with_its_token_and_with_its_user(front: Front) -> None:
    sign_in(front, "ana")
    front.service.accounts.disable("ana")
    assert "Sign out" not in front.client.get("/").text
    front.service.accounts.grant("ana", Role.REQUESTOR)
    assert "Sign out" not in front.client.get("/").text, "the session has ended for good"
    assert "hx-redirect" in write(front, "/sign-in", {"username": "ana", "password": PASSWORD}).headers
    assert "Sign out" in front.client.get("/").text
    front.clock.move(minutes=16)
    assert "Sign out" not in front.client.get("/").text
    told = write(front, "/ask", FORM).text
    assert "not signed in" in told
    assert 'href="/sign-in"' in told
    assert front.client.get("/api/task").json() == []


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://testserver:81"},
        {"origin": "null"},
        {"origin": "http://testserver", "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {},
    ],
    ids=str,
)
def test_only_a_page_of_this_server_writes(front: Front, headers: dict[str, str]) -> None:
    sign_in(front)
    task_id = front.post(AGES)
    cancel = f"/task/{task_id}/cancel"
    for path in (
        "/sign-in",
        "/sign-out",
        "/ask",
        "/ask/check",
        "/ask/rehearse",
        "/ask/curve",
        "/ask/trust",
        "/ask/epsilon",
        "/users",
        "/schemas",
        cancel,
    ):
        answer = front.client.post(path, json=FORM, headers=headers)
        assert answer.status_code == 403, path
    assert [task["task_id"] for task in front.client.get("/api/task").json()] == [task_id]
    assert "Sign out" in front.client.get("/").text


def test_a_page_writes_json_only(front: Front) -> None:
    sign_in(front)
    for path in ("/sign-in", "/ask", "/ask/check", "/ask/fields", "/users", "/schemas"):
        assert front.client.post(path, data=FORM, headers=HERE).status_code == 400
        for body in ("[1]", "{", "[" * 100_000):
            answer = front.client.post(path, content=body, headers={**HERE, "content-type": "application/json"})
            assert answer.status_code == 400


def test_the_interface_takes_no_cookies(front: Front) -> None:
    sign_in(front)
    assert front.client.post("/api/task", json=AGES, headers=HERE).status_code == 401


# --- asking -------------------------------------------------------------------------------------------------


def test_ticked_columns_become_sql_until_it_is_written_by_hand(front: Front) -> None:
    ticked = {**FORM, "column": ["age", "city", "order"], "featurizer": FORM["made"]}
    page = write(front, "/ask/fields", ticked)
    assert page.headers["hx-trigger"] == "recheck"
    assert "SELECT age, city, &#34;order&#34; FROM profile.demographics" in page.text
    by_hand = {**ticked, "featurizer": "SELECT age / 10 AS decade FROM profile.demographics"}
    page = write(front, "/ask/fields", by_hand).text
    assert "age / 10 AS decade" in page
    assert 'value="decade"' in page
    assert "written by hand" in page


@pytest.mark.slow
def test_a_check_tells_every_problem_with_its_place_and_then_none(front: Front) -> None:
    wrong = {**FORM, "epsilon": "much", "min_count": "3.5.1", "bound-0-high": "ten"}
    page = write(front, "/ask/check", wrong)
    assert page.status_code == 200
    assert "3 things to mend" in page.text
    for anchor in ("#epsilon", "#min_count", "#bound-0-kind"):
        assert f'href="{anchor}"' in page.text
    assert "People needed" in write(front, "/ask/check", {**FORM, "min_count": "5"}).text
    assert "must be at least 11" in write(front, "/ask/check", {**FORM, "min_count": "5"}).text
    good = write(front, "/ask/check", FORM).text
    assert "This can be put up" in good
    assert "Nothing leaves before you agree." in good
    assert "Sign in to put it up" in good
    assert 'id="put-up"' not in good


@pytest.mark.parametrize(
    ("asked", "words", "anchor"),
    [
        ("SELECT nope FROM profile.demographics", "is published here without a column nope", "featurizer"),
        ("SELECT age FROM secret.tables", "nobody published a table secret.tables here", "featurizer"),
        (
            "SELECT city FROM profile.demographics",
            "published as words, and a median takes",
            "featurizer",
        ),
        ("SELECT AGE AS years FROM Profile.Demographics ORDER BY years", "a part of epsilon goes", "bound-0-kind"),
    ],
)
def test_what_may_not_be_meant_is_said_and_can_be_put_up_all_the_same(
    front: Front, asked: str, words: str, anchor: str
) -> None:
    sign_in(front)
    body = filled(write(front, "/ask/fields", {**FORM, "featurizer": asked}).text)
    verdict = write(front, "/ask/check", body).text
    assert words in verdict
    assert f'<a href="#{anchor}">' in verdict
    assert "it works" not in verdict
    assert 'id="put-up"' in verdict
    if "years" in asked:
        assert "published" not in verdict
    assert "it works" in write(front, "/ask/check", FORM).text


def test_a_suggested_bound_that_nobody_filled_in_is_none(front: Front) -> None:
    none = {name: value for name, value in FORM.items() if not name.startswith("bound")}
    ticked = filled(write(front, "/ask/fields", none).text)
    assert (ticked["bound-0-kind"], ticked["bound-0-low"]) == ("range", "")
    by_hand = {**ticked, "bound-0-kind": ""}
    assert write(front, "/ask/check", ticked).text == write(front, "/ask/check", by_hand).text
    assert "Bounds: age" in write(front, "/ask/check", ticked).text
    assert "Bounds: age.high" in write(front, "/ask/check", {**ticked, "bound-0-low": "0"}).text
    needed = {**ticked, "kind": "bounded", "mechanism": "split"}
    assert "Bounds: age.low" in write(front, "/ask/check", needed).text


def test_what_is_composed_is_put_up_as_it_was_shown(front: Front) -> None:
    sign_in(front, "ana")
    assert 'id="put-up"' in write(front, "/ask/check", FORM).text
    answer = write(
        front,
        "/ask",
        {
            **FORM,
            "name": "Ages",
            "purpose": "Why\nnot",
            "delta": "",
            "expires_at": "2030-02-01T10:30",
            "max_count": "30",
        },
    )
    task_id = answer.headers["hx-redirect"].removeprefix("/task/")
    task = front.task(task_id)
    assert task["requestor"] == "ana"
    document = task["document"]
    assert document["bounds"] == {"age": {"type": "range", "low": 0.0, "high": 120.0}}
    assert (document["min_count"], document["max_count"]) == (20, 30)
    assert document["expires_at"] == "2030-02-01T10:30:00+00:00"
    assert document["purpose"] == "Why\nnot"
    assert "Cancel this task" in front.client.get(f"/task/{task_id}").text


def test_a_model_is_composed_from_the_columns_that_are_not_predicted(front: Front) -> None:
    body = {
        **FORM,
        "kind": "integrated",
        "model": "LogisticRegression",
        "delta": "1e-6",
        "featurizer": "SELECT age, income, buys FROM shop.people",
        "output": "buys",
        "bound-1-column": "income",
        "bound-1-kind": "range",
        "bound-1-low": "0",
        "bound-1-high": "1e3",
        "bound-2-column": "buys",
        "bound-2-kind": "set",
        "bound-2-values": 'true, "12", 7, often',
    }
    sign_in(front)
    task_id = write(front, "/ask", body).headers["hx-redirect"].removeprefix("/task/")
    document = front.task(task_id)["document"]
    assert (document["inputs"], document["output"]) == (["age", "income"], "buys")
    assert document["bounds"]["buys"]["values"] == [True, "12", 7, "often"]
    assert document["delta"] == 1e-6


@pytest.mark.few(3)
@pytest.mark.parametrize("document", [AGES, PETS, *[found[0] for found in results()[4:]]], ids=lambda d: d["type"])
def test_a_form_like_a_task_means_that_task(front: Front, document: dict[str, Any]) -> None:
    task_id = front.post(document)
    page = front.client.get(f"/ask?like={task_id}").text
    body = filled(page)
    assert body["mode"] == "form"
    sign_in(front)
    again = write(front, "/ask", body)
    assert "hx-redirect" in again.headers, again.text
    assert front.task(again.headers["hx-redirect"].removeprefix("/task/"))["digest"] == front.task(task_id)["digest"]


def test_form_and_json_change_over_without_loss(front: Front) -> None:
    asked = {**FORM, "name": "Ages", "rest": json.dumps({"diagnostics": 0.1})}
    page = write(front, "/ask/fields", {**asked, "mode": "json"}).text
    body = filled(page)
    assert body["was"] == "json"
    document = json.loads(body["raw"])
    assert document["diagnostics"] == 0.1
    assert document["name"] == "Ages"
    changed = {**body, "raw": json.dumps({**document, "epsilon": 2.5})}
    assert "2.5" in write(front, "/ask/check", changed).text
    form = filled(write(front, "/ask/fields", {**changed, "mode": "form"}).text)
    assert form["epsilon"] == "2.5"
    assert form["diagnostics"] == "0.1"
    assert "rest" not in form
    assert form["made"] == form["featurizer"] == FORM["featurizer"]
    broken = write(front, "/ask/fields", {**body, "raw": "{", "mode": "form"}).text
    assert "Not possible yet" in broken
    assert filled(broken)["raw"] == "{"


@pytest.mark.parametrize(
    "raw", ["", "[]", "{", '{"type": "basic", "type": "basic"}', "[" * 50_000, '{"type": 7}', "1e999"]
)
def test_any_json_at_all_is_checked_in_words(front: Front, raw: str) -> None:
    answer = write(front, "/ask/check", {"mode": "json", "was": "json", "raw": raw})
    assert answer.status_code == 200
    assert "to mend" in answer.text


def test_forms_from_elsewhere_do_no_harm(front: Front) -> None:
    for body in (
        {},
        {"kind": 7, "column": {"a": 1}, "rest": "[1]", "bound-0-column": 3},
        {"kind": "query", "featurizer": "DROP TABLE x", "table": "no.such"},
        {"kind": "integrated", "featurizer": "SELECT", "output": "x", "expires_at": "soon"},
        {**FORM, "rest": '{"type": "nothing", "epsilon": []}'},
    ):
        for path in ("/ask/fields", "/ask/check"):
            assert write(front, path, body).status_code == 200


def test_an_auditor_puts_nothing_up(front: Front) -> None:
    sign_in(front, "eve", Role.AUDITOR)
    assert 'id="put-up"' not in write(front, "/ask/check", FORM).text
    assert "Only requestors and operators put tasks up." in write(front, "/ask", FORM).text
    assert front.client.get("/api/task").json() == []


@pytest.mark.slow
def test_who_asked_cancels_and_nobody_else_but_operators(front: Front) -> None:
    sign_in(front)
    mine = write(front, "/ask", FORM).headers["hx-redirect"]
    sign_in(front, "ben")
    assert "Cancel this task" not in front.client.get(mine).text
    assert "Only the task&#39;s requestor or an operator" in write(front, f"{mine}/cancel").text
    sign_in(front)
    assert write(front, f"{mine}/cancel").headers["hx-refresh"] == "true"
    assert "Cancelled; nothing more will be released." in front.client.get(mine).text
    assert "The task has ended already" not in front.client.get(mine).text


# --- operators ----------------------------------------------------------------------------------------------


def test_users_are_for_operators(front: Front) -> None:
    assert front.client.get("/users").status_code == 401
    sign_in(front, "ana")
    assert front.client.get("/users").status_code == 403
    assert "/users" not in front.client.get("/").text
    body = {"name": "eve", "password": PASSWORD, "role": "operator"}
    assert write(front, "/users", body).status_code == 403
    assert [user.name for user in front.service.accounts.users()] == ["ana"]


def test_users_are_shown_with_whom_they_may_ask(front: Front) -> None:
    sign_in(front)
    for name, role in (("ana", "requestor"), ("ben", "requestor"), ("eve", "auditor")):
        write(front, "/users", {"name": name, "password": PASSWORD, "role": role})
    front.service.accounts.capabilities.grant("ana", ["north", "*"], ["query"])
    rows = {row.partition("</th>")[0]: row for row in front.client.get("/users").text.split('<th scope="row">')[1:]}
    assert "<td>every site for query<br>north for query</td>" in rows["ana"]
    assert "what each site allows" in rows["ben"]
    assert "puts no tasks up" in rows["eve"]


def test_an_operator_adds_users_changes_their_role_and_disables_them(front: Front) -> None:
    sign_in(front)
    added = write(front, "/users", {"name": "ana", "password": PASSWORD, "role": "requestor"}).text
    assert "ana may sign in now." in added
    assert PASSWORD not in added
    again = write(front, "/users", {"name": "ana", "password": PASSWORD, "role": "requestor"}).text
    assert "already" in again
    assert 'value="ana" required' in again
    assert (
        "password: must have 12" in write(front, "/users", {"name": "ben", "password": "short", "role": "auditor"}).text
    )
    assert "role: must be one of" in write(front, "/users", {"name": "ben", "password": PASSWORD, "role": "king"}).text
    assert "ana is auditor now." in write(front, "/users/role", {"name": "ana", "role": "auditor"}).text
    assert "disabled" in write(front, "/users/disable", {"name": "ana"}).text
    for nobody in ("nobody", "a\0b", 7):
        assert "no user" in write(front, "/users/disable", {"name": nobody}).text
    assert [(u.name, u.role, u.disabled) for u in front.service.accounts.users()] == [("ana", Role.AUDITOR, True)]


def test_an_operator_publishes_schemas(front: Front) -> None:
    tables = json.dumps({"rides": {"description": "", "columns": {"km": {"type": "float", "description": "how far"}}}})
    assert "not signed in" in write(front, "/schemas", {"app": "trips", "tables": tables}).text
    sign_in(front)
    answer = write(front, "/schemas", {"app": "trips", "tables": tables}).text
    assert "trips is published in version 1." in answer
    assert "how far" in front.client.get("/schemas").text
    assert "is not JSON (line 1" in write(front, "/schemas", {"app": "trips", "tables": "{'a': 1}"}).text
    wrong = json.dumps({"rides": {"columns": {"km": {"type": "metres"}}}})
    assert "tables.rides.columns.km.type" in write(front, "/schemas", {"app": "trips", "tables": wrong}).text

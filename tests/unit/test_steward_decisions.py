"""Decisions of a steward: shown before they are taken, of that policy, logged, undone; spending still counts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.support.command import exit_status
from tests.support.site_home import ask, site_home
from thebes.privacy.faults import Mistake
from thebes.site.algorithm_process import Office
from thebes.site.budget.policy import Policy, PolicyRefusal, TaskFacts
from thebes.site.budget.policy_file import PolicyChanged, change
from thebes.site.budget.policy_text import appended, edition, ended, read_policy
from thebes.site.home import SiteHome
from thebes.site.steward.rest import guarded, one_time
from thebes.web.site.pages import put_on
from thebes.web.site.requests import contexts_to_choose
from thebes.wire.access import Access

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
QUERY = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count"}
HALF, ONE = {**QUERY, "epsilon": 0.5}, {**QUERY, "epsilon": 1.0}
ALLOW = """# who may ask here
[[allow]]  # the cohort
requestors = ["ana"]
datasets = ["patients"]
kinds = ["query"]
epsilon = 2   # agreed in May

[[allow]]
requestors = ["ana", "bob"]
datasets = ["patients"]
kinds = ["train"]
epsilon = 1
"""


class Linked:
    """A link, as far as the pages see it: an office in this process."""

    name, state, reason = "north", "connected", ""

    def __init__(self, office: Office) -> None:
        self.algorithm, self._office = self, office

    async def ask(self, kind: str, **more: Any) -> Any:
        return json.loads(json.dumps(self._office.answer({"kind": kind, **more})["body"]))


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return site_home(tmp_path / "site", policy=None)


@pytest.fixture
def office(home: SiteHome) -> Iterator[Office]:
    made = Office(home, "north")
    yield made
    for part in (made.ledger, made.outbox, made.audit):
        part.close()


@pytest.fixture
def steward(office: Office) -> TestClient:
    access = Access(lambda: "the-token")
    api: Any = guarded(Linked(office), access, port=PORT, confined=True, pages=put_on)  # type: ignore[arg-type]
    client = TestClient(api, base_url=ORIGIN, follow_redirects=False)
    client.get(one_time(PORT, access).removeprefix(ORIGIN))
    return client


def asked(office: Office, document: dict[str, Any] = HALF, *, task: str = "t1", who: str = "ana") -> dict[str, Any]:
    return office.answer(ask(document, task=task, requestor=who))


def decided(steward: TestClient, **decision: Any) -> dict[str, Any]:
    shown = steward.post("/api/policy/preview", json=decision)
    assert shown.status_code == 200, shown.text
    taken = steward.post("/api/policy/decide", json={**decision, "shown": shown.json()["shown"]})
    assert taken.status_code == 200, taken.text
    told: dict[str, Any] = taken.json()
    return told


def test_a_request_is_allowed_for_its_task_alone(office: Office, steward: TestClient) -> None:
    assert asked(office)["code"] == "policy"
    shown = steward.post("/api/policy/preview", json={"action": "allow", "task": "t1", "epsilon": 0.5}).json()
    assert shown["sentence"] == "ana may ask this task about patients, for epsilon 0.5 together."
    assert asked(office, task="t2")["code"] == "policy", "a preview changes nothing"
    decided(steward, action="allow", task="t1", epsilon=0.5)
    assert "code" not in asked(office, task="t3")
    assert asked(office, ONE, task="t4")["code"] == "policy", "another question of the same person"
    assert asked(office, task="t5", who="bob")["code"] == "policy", "the same question of another person"
    other = {**QUERY, "statistic": "mean", "column": "age", "epsilon": 0.5}
    assert asked(office, other, task="t6")["code"] == "policy"


def test_a_requestor_is_allowed_up_to_an_epsilon_and_revoked_and_what_was_spent_counts(
    office: Office, steward: TestClient
) -> None:
    """Grant 2, spend 1, revoke, grant 2: one is left."""
    asked(office, ONE)
    undo = decided(steward, action="allow", task="t1", scope="requestor", epsilon=2)["undo"]
    assert "code" not in asked(office, ONE, task="t2")
    decided(steward, **undo)
    assert asked(office, ONE, task="t3")["code"] == "policy"
    decided(steward, action="allow", task="t1", scope="requestor", epsilon=2)
    rules = steward.get("/api/ledger").json()["rules"]
    assert [(r["ended"], r["spent"]["patients"]["epsilon"], r["left"]["patients"]["epsilon"]) for r in rules] == [
        (True, 1, 1),
        (False, 1, 1),
    ]
    count = {**QUERY, "statistic": "count", "where": "age > 30", "epsilon": 1.0}
    assert "code" not in asked(office, count, task="t4")
    mean = {**QUERY, "statistic": "mean", "column": "age", "epsilon": 0.5}
    assert asked(office, mean, task="t5")["code"] == "budget"


def test_a_decision_about_one_task_tells_no_more_than_the_rule_for_all(
    home: SiteHome, office: Office, steward: TestClient
) -> None:
    home.policy.write_text(ALLOW.replace("epsilon = 2 ", "steady = true\nepsilon = 0.25 "))
    asked(office)
    decided(steward, action="allow", task="t1", epsilon=0.5)
    assert [rule.steady for rule in read_policy(home.policy.read_text()).rules] == [True, False, True]


def test_whoever_is_refused_reads_the_reason_and_nobody_else_is_refused(office: Office, steward: TestClient) -> None:
    for who in ("ana", "bob"):
        asked(office, task=f"first-{who}", who=who)
        decided(steward, action="allow", task=f"first-{who}", scope="requestor", epsilon=5)
    decided(steward, action="refuse", task="first-ana", scope="task", reason="too narrow a question")
    refused = asked(office, task="t2")
    assert (refused["code"], refused["reason"]) == ("policy", "the site's steward refused this: too narrow a question")
    assert "code" not in asked(office, ONE, task="t3"), "another task of hers"
    undo = decided(steward, action="refuse", task="first-ana", scope="requestor", reason="the study is over")["undo"]
    assert "the study is over" in asked(office, ONE, task="t4")["reason"]
    assert "code" not in asked(office, task="t5", who="bob")
    again = steward.post(
        "/api/policy/preview", json={"action": "allow", "task": "first-ana", "scope": "requestor", "epsilon": 1}
    )
    assert (again.status_code, again.json()["detail"]) == (
        422,
        "is refused by refusal 1 of the policy, which comes first: end that one",
    )
    decided(steward, **undo)
    assert "code" not in asked(office, ONE, task="t6")


def test_what_a_refusal_of_one_task_leaves_open_is_said_before_it_is_taken(office: Office, steward: TestClient) -> None:
    def sentence(**decision: Any) -> str:
        told: str = steward.post("/api/policy/preview", json=decision).json()["sentence"]
        return told

    asked(office)
    single = {"action": "refuse", "task": "t1", "scope": "task", "reason": "no"}
    assert sentence(**single).endswith("refused as it is. The same question at another epsilon is another task.")
    assert sentence(**{**single, "scope": "requestor"}).endswith("everything that they ask here is refused.")
    asked(office, ONE, task="t2")
    allowing = {"action": "allow", "task": "t2", "scope": "requestor", "epsilon": 1}
    assert "refused" not in sentence(**allowing)
    undo = decided(steward, **single)["undo"]
    assert sentence(**allowing).endswith("stays refused, but the same question asked otherwise is answered.")
    decided(steward, **undo)
    assert "refused" not in sentence(**allowing)


def test_nothing_is_decided_about_another_policy_than_was_shown(
    home: SiteHome, office: Office, steward: TestClient
) -> None:
    asked(office)
    decision = {"action": "allow", "task": "t1", "scope": "requestor", "epsilon": 1}
    shown = steward.post("/api/policy/preview", json=decision).json()["shown"]
    home.policy.write_text("# the other steward was here\n")
    taken = steward.post("/api/policy/decide", json={**decision, "shown": shown})
    assert (taken.status_code, "is not what was shown" in taken.json()["detail"]) == (409, True)
    assert home.policy.read_text() == "# the other steward was here\n"
    assert [entry.event for entry in office.audit.latest(10)].count("decision") == 0
    unseen = steward.post("/api/policy/decide", json=decision)
    assert (unseen.status_code, "preview first" in unseen.json()["detail"]) == (422, True)


def test_every_decision_is_in_the_audit_log_before_it_counts(
    home: SiteHome, office: Office, steward: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(office)
    decided(steward, action="allow", task="t1", epsilon=0.5)
    decided(steward, action="end", table="allow", number=1)
    facts = [entry.facts for entry in office.audit.latest(10) if entry.event == "decision"]
    assert [each["action"] for each in facts] == ["end", "allow"]
    assert facts[1]["requestor"] == "ana"
    before = home.policy.read_text()

    def full(*entries: Any) -> None:
        raise OSError("no space left on the device")

    monkeypatch.setattr(office.audit, "note", full)
    with pytest.raises(OSError, match="no space"):
        decided(steward, action="resume", table="allow", number=1)
    assert home.policy.read_text() == before


@pytest.mark.parametrize(
    ("decision", "field"),
    [
        ({"action": "allow", "task": "t9", "epsilon": 1}, "task"),
        ({"action": "allow", "task": "t1"}, "epsilon"),
        ({"action": "refuse", "task": "t1", "reason": "  "}, "reason"),
        ({"action": "end", "table": "allow", "number": 7}, "rule"),
        ({"action": "end", "number": 1}, "table"),
        ({"action": "resume", "table": "refuse"}, "number"),
        ({"action": "allow", "task": "t1", "epsilon": 1, "contexts": [""]}, "policy.toml"),
        ({"action": "allow", "task": "star", "epsilon": 1}, "task"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_by_its_field(
    office: Office, steward: TestClient, decision: dict[str, Any], field: str
) -> None:
    asked(office)
    asked(office, task="star", who="*")
    answer = steward.post("/api/policy/preview", json=decision)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_pages_lead_from_a_request_to_a_decision_and_back(office: Office, steward: TestClient) -> None:
    asked(office)
    page = steward.get("/requests/t1", headers={"accept": "text/html"}).text
    assert page.index("ana asks for the count in patients, for epsilon 0.5") < page.index("Digest of the document")
    assert "it is not checked here" in page
    form = {"action": "allow", "task": "t1", "scope": "requestor", "epsilon": 2}
    shown = steward.post("/policy/preview", json=form, headers={"hx-request-type": "partial"}).text
    assert "ana may ask query tasks about patients, for epsilon 2 together." in shown
    assert "[[allow]]" in shown
    (name,) = re.findall(r'name="shown" value="([0-9a-f]{64})"', shown)
    wider = steward.post("/policy/decide", json={**form, "epsilon": 50, "shown": name})
    assert (wider.status_code, "is not what was shown" in wider.text) == (409, True), "another decision than was shown"
    told = steward.post("/policy/decide", json={**form, "shown": name}, headers={"hx-request-type": "partial"}).text
    assert "Take it back" in told
    asked(office, task="t2")
    policy = steward.get("/policy", headers={"accept": "text/html"}).text
    assert "epsilon 0.5 of 2 spent or set aside; one more answer may cost at most 1.5" in " ".join(policy.split())
    assert "Of rule 1, epsilon 0.5 of 2 is spent" in steward.get("/requests/t2", headers={"accept": "text/html"}).text
    wrong = steward.post("/policy/preview", json={**form, "epsilon": -1}, headers={"hx-request-type": "partial"})
    assert (wrong.status_code, "epsilon at most" in wrong.text) == (422, True), wrong.text
    foreign = steward.post("/policy/decide", json={**form, "shown": "x"}, headers={"sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403


def test_whose_rows_a_decision_is_about_is_chosen_and_what_the_request_names_is_proposed(
    office: Office, steward: TestClient
) -> None:
    asked(office, {**HALF, "where": "country == 'de'"})
    request = next(each for each in steward.get("/api/requests").json() if each["task"] == "t1")
    declared = [{"name": "patients", "growing": {"contexts": ["de", "fr"]}}]
    assert contexts_to_choose(request, declared) == {"de": True, "fr": False}
    form = {"action": "allow", "task": "t1", "scope": "requestor", "epsilon": 2}
    wish = {"headers": {"hx-request-type": "partial"}}
    none = steward.post("/policy/preview", json={**form, "contexts": ""}, **wish)
    assert (none.status_code, "whose rows" in none.text) == (422, True)
    shown = steward.post("/policy/preview", json={**form, "contexts": ["", "de", "a, b"]}, **wish).text
    assert "about patients (rows of de and a, b), for epsilon 2" in shown
    assert re.findall(r'name="contexts" value="([^"]*)"', shown) == ["de", "a, b"]
    all_of_them = steward.post("/policy/preview", json={**form, "contexts": ["", "*"]}, **wish).text
    assert "about patients (all rows)" in all_of_them


# --- the text of the file -----------------------------------------------------------------------------------------


def test_a_rule_is_ended_and_resumed_with_every_comment_in_its_place() -> None:
    once = ended(ALLOW, "allow", 1)
    assert [rule.ended for rule in read_policy(once).rules] == [True, False]
    assert once.replace("ended = true\n", "") == ALLOW
    back = ended(once, "allow", 1, end=False)
    assert read_policy(back) == read_policy(ALLOW)
    assert ended(back, "allow", 1) == once
    inline = 'allow = [{requestors = ["a"], datasets = ["d"], kinds = ["query"], epsilon = 1}]\n'
    with pytest.raises(Mistake, match="cannot be changed here; change rule 1 yourself"):
        ended(inline, "allow", 1)
    tricky = ALLOW.replace('kinds = ["train"]', 'kinds = [\n  "train",\n]')
    assert [rule.ended for rule in read_policy(ended(tricky, "allow", 2)).rules] == [False, True]


def test_a_rule_about_one_task_comes_before_all_others_and_a_refusal_before_that() -> None:
    asked = TaskFacts("ana", "patients", "query", "site", "a" * 64)
    rule = {"requestors": ["ana"], "datasets": ["patients"], "kinds": ["query"], "epsilon": Decimal(9)}
    text = appended(ALLOW, {**rule, "task": "a" * 64})
    found = read_policy(text).rule(asked)
    assert found is not None
    assert found.number == 3
    assert read_policy(text).rule(TaskFacts("ana", "patients", "query", "site", "b" * 64)).number == 1  # type: ignore[union-attr]
    refusing = Policy(read_policy(text).rules, (PolicyRefusal(1, ("ana",), "no"),))
    assert (refusing.rule(asked), refusing.refusal(asked)) == (None, "the site's steward refused this: no")
    with pytest.raises(Mistake, match="rule 4, task: must be the digest of a document"):
        read_policy(appended(text, rule) + 'task = "short"\n')


def test_changes_come_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    rule = {"requestors": ["ana"], "datasets": ["patients"], "kinds": ["query"], "epsilon": Decimal(1)}
    workers = [threading.Thread(target=lambda: change(path, lambda text: appended(text, rule))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(read_policy(path.read_text()).rules) == 8
    with pytest.raises(PolicyChanged):
        change(path, lambda text: appended(text, rule), shown=edition("another"))


# --- commands -------------------------------------------------------------------------------------------------------


def test_commands_revoke_and_grant_again(home: SiteHome, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    home.policy.write_text(ALLOW)
    status, out, _ = run(
        "dataset", "revoke", "patients", "--home", home.folder, "--to", "ana", "--reason", "it is over"
    )
    assert (status, "ana may not ask about patients any more" in out) == (0, True)
    policy = read_policy(home.policy.read_text())
    assert [rule.ended for rule in policy.rules] == [True, False], "the second is bob's too"
    assert [(refusal.requestors, refusal.reason) for refusal in policy.refusals] == [(("ana",), "it is over")]
    assert policy.rule(TaskFacts("bob", "patients", "train", "site")) is not None
    assert policy.rule(TaskFacts("ana", "patients", "train", "site")) is None
    grant = ("dataset", "grant", "patients", "--home", home.folder, "--kinds", "query", "--epsilon", "1")
    status, _, told = run(*grant, "--to", "ana")
    assert (status, "Refusal 1 of policy.toml comes first" in told) == (0, True), "it refuses more than is granted"
    assert read_policy(home.policy.read_text()).rule(TaskFacts("ana", "patients", "query", "site")) is None
    everything = (*grant[:6], "*", *grant[7:])
    assert run(*everything, "--to", "ana")[0] == 0
    again = read_policy(home.policy.read_text())
    assert again.rule(TaskFacts("ana", "patients", "query", "site")) is not None
    home.policy.write_text(appended(home.policy.read_text(), {"requestors": ["*"], "reason": "no"}, table="refuse"))
    _, _, told = run(*grant, "--to", "ana")
    assert "Refusal 2 of policy.toml comes first" in told, "it is everybody's"
    status, _, told = run("dataset", "revoke", "nothing", "--home", home.folder, "--to", "ana")
    assert (status, "there is no data set 'nothing'" in told) == (2, True)

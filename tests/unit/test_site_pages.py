"""A site's own pages without processes: who comes in, and what they show of whatever the site tells."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from thebes.site.steward.rest import guarded, one_time
from thebes.web.site.pages import put_on
from thebes.wire.access import Access
from thebes.wire.refusals import Unreachable

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
TASK = "a" * 32
REQUEST = {
    "task": TASK,
    "requestor": "<b>ana</b>",
    "kind": "query",
    "dataset": "patients",
    "datasets": ["patients"],
    "noise": "site",
    "digest": "0" * 64,
    "document": {"type": "query", "name": "How many?"},
    "explanation": "It asks how many rows there are.",
    "asked_at": 1_700_000_000.0,
    "state": "closed",
    "code": "",
    "reason": "",
    "rule": 1,
    "parts": 1,
    "cost": {"epsilon": 0.5, "delta": 0.0},
}
REFUSED = {**REQUEST, "task": "b" * 32, "state": "refused", "code": "policy", "reason": "the site's policy says no"}
BLOCK = {
    "block": "patients",
    "epsilon": 10.0,
    "delta": 1e-6,
    "remaining": {"epsilon": 2.5, "delta": 1e-6},
    "left": 0.75,
    "account": "of epsilon 10, delta 1e-06: 25 % spent; one more answer without a delta may cost epsilon 2.5",
    "state": "open",
    "filter": "zcdp",
    "unit": "person",
}
COLUMNS = {
    "patient": {"type": "string", "key": True},
    "age": {"type": "integer", "low": 18.0, "high": 98.0},
    "sex": {"type": "string", "values": ["female", "male"]},
    "note": {"type": "string"},
    "photo": {"type": "image", "height": 24, "width": 32, "channels": 3},
}
RULE = {
    "rule": 1,
    "requestors": ["*"],
    "datasets": ["patients"],
    "kinds": ["query", "train"],
    "epsilon": 3.0,
    "delta": None,
    "noise": ["site"],
    "contexts": [],
    "steady": False,
    "task": "",
    "ended": False,
    "left": {"patients": {"epsilon": 1.25, "delta": 1e-6}},
    "spent": {"patients": {"epsilon": 1.75, "delta": 0.0}},
}
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
TOLD: dict[str, Any] = {
    "requests": [REFUSED, REQUEST],
    "ledger": {
        "frozen": False,
        "notices_older_copies": True,
        "head": "1:0",
        "blocks": [BLOCK],
        "rules": [RULE],
        "refusals": [],
        "policy": None,
    },
    "datasets": [
        {
            "name": "patients",
            "schema": {"unit": "person", "max_rows_per_unit": 2, "columns": COLUMNS},
            "public": False,
            "source": "csv",
            "blocks": [BLOCK],
            "trouble": None,
            "unread": {"photo": {"are not a whole PNG or JPEG": 2}},
        },
        {"name": "broken", "trouble": "broken.toml: is not TOML"},
    ],
    "audit": {
        "head": "2:ab",
        "entries": [
            {
                "number": 2,
                "at": "2026-11-22T01:00:00Z",
                "event": "answer",
                "facts": {"task": TASK, "part": "phase-0", "epsilon": "0.5", "delta": "0.0", "again": False},
                "hash": "ab",
            }
        ],
    },
    "budgets": {"frozen": False, "policy": None, "left": {"patients": 0.25, "visits": 1.0}},
    "verified": {
        "audit log": {"entries": 2, "findings": []},
        "ledger": {"entries": 0, "findings": ["entry 7 is gone"]},
    },
}


class Answers:
    def __init__(self) -> None:
        self.told = dict(TOLD)
        self.up = True

    async def ask(self, kind: str) -> Any:
        if not self.up:
            raise Unreachable("the algorithm process", "does not run just now; it is started again")
        return self.told[kind]


class Linked:
    """A link, as far as the pages see it."""

    name = "north"

    def __init__(self) -> None:
        self.algorithm = Answers()
        self.state, self.reason = "connected", ""

    def shown(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "coordinator": "coordinator.example:8443",
            "state": self.state,
            "reason": self.reason,
            "since": "2026-11-22T01:00:00+00:00",
            "certificate_ends": None,
            "algorithm": "up" if self.algorithm.up else "down",
        }


class Place:
    def __init__(self) -> None:
        self.link = Linked()
        self.access = Access(lambda: "the-token", figures=lambda: "for-figures")
        api: Any = guarded(self.link, self.access, port=PORT, confined=True, pages=put_on)  # type: ignore[arg-type]
        self.client = TestClient(api, base_url=ORIGIN, follow_redirects=False)

    def enter(self) -> None:
        answer = self.client.get(one_time(PORT, self.access).removeprefix(ORIGIN))
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie

    def page(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path, headers={"accept": "text/html"})
        assert answer.status_code == status, answer.text
        assert "default-src" in answer.headers["content-security-policy"]
        return str(answer.text)


@pytest.fixture
def place() -> Place:
    return Place()


def test_only_a_one_time_address_lets_a_browser_in(place: Place) -> None:
    assert "Open the address" in place.page("/", 401)
    assert place.client.get("/requests", headers={"accept": "text/html"}).headers["location"] == "/"
    assert place.client.get("/requests").status_code == 401
    address = one_time(PORT, place.access).removeprefix(ORIGIN)
    assert place.client.get(address).status_code == 303
    assert "The site north" in place.page("/")
    place.client.cookies.clear()
    assert "was used before" in place.page(address, 401)


def test_the_token_gives_another_address_and_nobody_without_it(place: Place) -> None:
    assert place.client.post("/api/session", json={}).status_code == 401
    answer = place.client.post("/api/session", json={}, headers={"Authorization": "Bearer the-token"})
    assert answer.status_code == 201
    assert place.client.get(answer.json()["url"].removeprefix(ORIGIN)).status_code == 303


def test_browsers_that_came_in_are_listed_and_ended_each_by_a_name_that_lets_nobody_in(place: Place) -> None:
    place.client.get(one_time(PORT, place.access).removeprefix(ORIGIN))
    first = dict(place.client.cookies)
    place.client.cookies.clear()
    place.client.get(one_time(PORT, place.access).removeprefix(ORIGIN))
    page = place.page("/")
    names = re.findall(r'name="browser" value="([0-9a-f]{16})"', page)
    assert len(names) == 2
    assert page.index("this one") < page.index(names[1])  # newest first
    assert not any(secret in page for secret in (*first.values(), *place.client.cookies.values()))
    second = dict(place.client.cookies)
    place.client.cookies.clear()
    place.client.cookies.update(dict.fromkeys(second, names[1]))
    assert place.client.get("/").status_code == 401
    place.client.cookies.clear()
    place.client.cookies.update(second)
    ended = place.client.post("/browsers/end", json={"browser": names[1]}, headers={"hx-request-type": "partial"})
    assert (ended.status_code, names[1] in ended.text, names[0] in ended.text) == (200, False, True)
    assert place.client.post("/browsers/end", json={"browser": names[1]}).status_code == 404
    assert place.page("/")
    place.client.cookies.clear()
    place.client.cookies.update(first)
    assert place.client.get("/").status_code == 401


def test_the_token_for_figures_opens_nothing_else(place: Place) -> None:
    bearer = {"Authorization": "Bearer for-figures"}
    assert "thebes_site_linked" in place.client.get("/metrics", headers=bearer).text
    for path in ("/api/site", "/api/requests", "/policy", "/requests", "/metrics/"):
        assert place.client.get(path, headers=bearer).status_code == 401, path
    for path in ("/api/session", "/api/policy/decide", "/metrics"):
        assert place.client.post(path, json={}, headers=bearer).status_code == 401, path
    assert place.client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401


def test_figures_are_given_to_who_has_the_token(place: Place) -> None:
    assert place.client.get("/metrics").status_code == 401
    answer = place.client.get("/metrics", headers={"Authorization": "Bearer the-token"})
    assert answer.status_code == 200
    assert "thebes_site_linked 1.0" in answer.text
    assert 'thebes_site_budget_left{dataset="patients"} 0.25' in answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    place.link.algorithm.up = False
    away = place.client.get("/metrics", headers={"Authorization": "Bearer the-token", "Accept": OPEN_METRICS})
    assert away.headers["content-type"].startswith("application/openmetrics-text")
    told = {metric.name: metric for metric in text_string_to_metric_families(away.text)}
    assert [sample.value for sample in told["thebes_site_algorithm_up"].samples] == [0.0]
    assert "thebes_site_budget_left" not in told


def test_the_front_tells_how_it_stands_and_what_was_decided(place: Place) -> None:
    place.enter()
    page = place.page("/")
    for words in ("coordinator.example:8443", "25 %", "one more answer without a delta may cost epsilon 2.5"):
        assert words in page
    assert "the site&#39;s policy says no" in page
    assert "&lt;b&gt;ana&lt;/b&gt;" in page
    assert "<b>ana" not in page
    place.link.state, place.link.reason = "refused", "the certificate of the site north was revoked"
    assert "was revoked" in place.page("/standing")


def test_while_the_rows_are_away_the_pages_say_so_and_the_rest_goes_on(place: Place) -> None:
    place.enter()
    place.link.algorithm.up = False
    assert "does not run just now" in place.page("/")
    assert "does not run just now" in place.page("/requests", 502)


def test_what_no_rule_covers_comes_with_the_command_that_would_allow_it(place: Place) -> None:
    """Names come from strangers, and the command may be pasted into a shell."""
    place.enter()
    refused = {**REFUSED, "document": {"type": "query", "epsilon": 0.5}, "requestor": "eve; rm -rf x"}

    def shown(**changed: Any) -> str:
        place.link.algorithm.told = {**TOLD, "requests": [{**refused, **changed}]}
        return html.unescape(place.page(f"/requests/{REFUSED['task']}"))

    assert "thebes dataset grant --home=HOME '--to=eve; rm -rf x' --kinds=query --epsilon=0.5 -- patients" in shown()
    assert "--noise=site,coordinator -- patients" in shown(noise="coordinator")
    for changed in ({"requestor": "*"}, {"kind": "query,train"}, {"code": "budget"}, {"document": None}):
        assert "thebes dataset grant" not in shown(**changed)


@pytest.mark.parametrize("notices", [True, False])
def test_a_steward_is_told_where_an_older_copy_of_the_home_would_not_be_noticed(place: Place, notices: bool) -> None:
    place.enter()
    place.link.algorithm.told = {**TOLD, "ledger": {**TOLD["ledger"], "notices_older_copies": notices}}
    for path in ("/", "/standing"):
        assert ("Never put an older copy of this home back by hand" in place.page(path)) is not notices


def test_each_page_shows_its_part(place: Place) -> None:
    place.enter()
    assert place.page("/requests").index("refused") < place.page("/requests").index("answered")
    one = place.page(f"/requests/{TASK}")
    for words in ("How many?", "It asks how many rows there are.", "epsilon 0.5", "noise is added here"):
        assert words in one
    place.page("/requests/unknown", 404)
    place.page("/nowhere", 404)
    sets = place.page("/datasets")
    for words in (
        "says whose a row is; never asked for",
        "18 to 98",
        "brought to 32 x 24, in colour; for networks only",
        "2 are not a whole PNG or JPEG",
        "female, male",
        "only",
        "broken.toml: is not TOML",
    ):
        assert words in sets
    assert "at most 2 rows of each count" in sets
    assert "one more answer may cost at most 1.25" in sets
    policy = place.page("/policy")
    assert "epsilon 3 at each data set" in policy
    log = place.page("/log")
    assert "2:ab" in log
    assert "epsilon 0.5, part phase-0" in log or "part phase-0, epsilon 0.5" in log
    verified = place.page("/log/verified")
    assert "The audit log is whole: 2 entries" in verified
    assert "The ledger does not fit" in verified
    assert "entry 7 is gone" in verified


def test_a_policy_that_cannot_be_read_is_told_where_one_looks_first(place: Place) -> None:
    place.enter()
    trouble = "policy.toml: line 2: rule 1, who: is unknown; everything is refused until that is mended"
    place.link.algorithm.told["ledger"] = {**TOLD["ledger"], "rules": [], "policy": trouble}
    for path in ("/", "/policy"):
        assert "everything is refused until that is mended" in place.page(path)
    assert "no rule allows anything" in place.page("/policy")

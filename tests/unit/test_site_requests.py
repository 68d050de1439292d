"""The life of an ask at a site: every way in which it is refused, what it costs, and killed at every step."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.half_kinds import known
from tests.support.reaper import Killed, Reaper
from tests.support.site_home import AGES, ask, declare, site_home
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.site.requests.response_store import ResponseStore
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registry
from thebes.wire.link import write_envelope

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

QUERY = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
PEOPLE = {
    "type": "basic",
    "epsilon": 1.0,
    "server": "trusted",
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
}
ALLOW = """
[[allow]]
requestors = ["ana", "bob"]
datasets = ["patients"]
kinds = ["relay", "query"]
epsilon = 3
"""


ONCE = schema_of({**AGES, "columns": {**AGES["columns"], "sex": {"type": "string"}}})
#: of one person as many rows more, and another range: neither is what the data set's rows are summed by
TWICE = schema_of(
    {**AGES, "max_rows_per_unit": 2, "columns": {**AGES["columns"], "who": {"type": "string", "key": True}}}
)
OLDER = schema_of({**AGES, "columns": {"age": {"type": "integer", "low": 0, "high": 110}}})


@pytest.fixture(autouse=True)
def _relay() -> Iterator[None]:
    with known("relay"):
        yield


def relay(**more: Any) -> dict[str, Any]:
    return {"type": "relay", "dataset": "patients", "epsilon": 1.0, **more}


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return site_home(tmp_path / "site")


@pytest.fixture
def office(home: SiteHome) -> Iterator[Office]:
    made = Office(home, "north")
    yield made
    shut(made)


def close(office: Office, task: str = "t1") -> dict[str, Any]:
    return office.answer({"kind": "closed", "id": "c", "task": task})


def shut(office: Office) -> None:
    office.ledger.close()
    office.outbox.close()
    office.audit.close()


def spent(office: Office, block: str = "patients") -> Decimal:
    return Decimal(sum(meter.spent for meter in office.ledger.block(block).meters.values())).scaleb(-12)


def held(office: Office, block: str = "patients") -> Decimal:
    return Decimal(sum(meter.reserved for meter in office.ledger.block(block).meters.values())).scaleb(-12)


# --- the table of decisions -----------------------------------------------------------------------------------


@pytest.mark.few(12)
@pytest.mark.parametrize(
    ("document", "more", "policy", "code"),
    [
        (relay(), {}, ALLOW, None),
        (relay(), {"requestor": "bob"}, ALLOW, None),
        (relay(), {"requestor": "eve"}, ALLOW, "policy"),
        (relay(), {}, None, "policy"),
        (relay(), {}, "", "policy"),
        (relay(), {}, "allow everything", "policy"),
        (relay(), {}, ALLOW.replace("relay", "train"), "policy"),
        (relay(noise="coordinator"), {}, ALLOW, "policy"),
        (relay(noise="coordinator"), {}, ALLOW + 'noise = ["site", "coordinator"]', "schema"),
        (relay(noise="coordinator"), {"schema": TWICE}, ALLOW + 'noise = ["site", "coordinator"]', "schema"),
        (relay(noise="coordinator"), {"schema": ONCE}, ALLOW + 'noise = ["site", "coordinator"]', None),
        (relay(), {"schema": ONCE}, ALLOW, None),
        (relay(), {"schema": TWICE}, ALLOW, "schema"),
        (relay(), {"schema": OLDER}, ALLOW, "schema"),
        (relay(), {"declared": 7}, ALLOW, "document"),
        (relay(dataset="visits"), {}, ALLOW, "policy"),
        (relay(dataset="visits"), {}, ALLOW.replace('["patients"]', '"*"'), "dataset"),
        (relay(column="weight"), {}, ALLOW, "schema"),
        (relay(epsilon=4), {}, ALLOW, "budget"),
        (relay(epsilon=11), {}, ALLOW.replace("= 3", "= 100"), "budget"),
        (relay(sites=["south"]), {}, ALLOW, "document"),
        (relay(sites=["south", "north"]), {}, ALLOW, None),
        (relay(nonsense=1), {}, ALLOW, "document"),
        ({"type": "unheard"}, {}, ALLOW, "document"),
        (PEOPLE, {}, ALLOW, "document"),
        (relay(), {"phase": 1}, ALLOW, "document"),
        (relay(), {"ask": {"ask_id": "x", "part": "phase-9", "phase": 0, "partition": 0}}, ALLOW, "document"),
        (relay(), {"ask": {"ask_id": "x", "part": "phase-0", "phase": -1, "partition": 0}}, ALLOW, "document"),
        (relay(), {"ask": None}, ALLOW, "document"),
        (relay(), {"task": "../../etc"}, ALLOW, "document"),
        (relay(), {"requestor": "\x1b[2J"}, ALLOW, "document"),
        (relay(), {"requestor": 7}, ALLOW, "document"),
        (relay(), {"payload": [1]}, ALLOW, "document"),
        (relay(trouble="before"), {}, ALLOW, "failed"),
        (relay(trouble="after"), {}, ALLOW, "failed"),
        (relay(trouble="unpaid"), {}, ALLOW, "failed"),
        ({**QUERY, "statistic": "mean", "column": "height"}, {}, ALLOW, "schema"),
        ({**QUERY, "epsilon": 0, "privacy": "none"}, {}, ALLOW, "schema"),
        (QUERY, {}, ALLOW, None),
    ],
)  # fmt: skip
def test_every_ask_is_decided_as_the_policy_the_data_and_the_budget_say(
    tmp_path: Path, document: dict[str, Any], more: dict[str, Any], policy: str | None, code: str | None
) -> None:
    office = Office(site_home(tmp_path / "site", policy=policy), "north")
    answer = office.answer(ask(document, **more))
    assert answer.get("code") == code
    if code is None:
        assert answer["kind"] == "contribution"
        assert answer["cost"]["epsilon"] == document["epsilon"]
    else:
        assert answer["kind"] == "refusal"
        assert "31459" not in answer["reason"]
        assert answer["reason"].endswith(tuple("abcdefghijklmnopqrstuvwxyz0123456789'\")"))
        if document.get("trouble") != "after":
            assert spent(office) == 0
    office.audit.verify()
    office.ledger.verify()
    shut(office)


def test_what_fails_in_the_middle_says_nothing_of_the_rows_not_even_in_the_log(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.answer(ask(relay(trouble="after")))
    assert "RuntimeError" in caplog.text
    assert "31459" not in caplog.text


def test_the_same_ask_again_gets_the_same_bytes_and_costs_nothing(office: Office) -> None:
    first, again = (office.answer(ask(relay(long=500))) for _ in range(2))
    assert write_envelope({**first, "id": "1"}) == write_envelope({**again, "id": "1"})
    assert spent(office) == 1


def test_another_ask_for_a_part_that_was_answered_is_refused(office: Office) -> None:
    office.answer(ask(relay()))
    other = ask(relay(), payload={"weights": np.zeros(100)})
    assert office.answer(other)["code"] == "document"
    assert office.answer(ask(relay(epsilon=0.5)))["code"] == "document"
    assert office.answer(ask(relay(), requestor="bob"))["code"] == "document"
    assert spent(office) == 1


def test_a_part_that_failed_over_the_rows_is_not_asked_anything_else(home: SiteHome, office: Office) -> None:
    """The way in which a question fails may say something of the rows, and a part is paid for once."""
    failing = relay(trouble="after", rounds=2)
    assert office.answer(ask(failing))["code"] == "failed"
    shut(office)
    again = Office(home, "north")
    assert again.answer(ask(failing, payload={"weights": [1.0]}))["reason"].endswith("with another question")
    assert again.answer(ask(failing))["code"] == "failed"
    assert again.answer(ask(failing, phase=1, payload={"weights": [1.0]}))["code"] == "failed"
    assert spent(again) == Decimal(1)
    shut(again)


def test_a_task_that_was_closed_is_not_answered_any_more_and_gives_back_what_it_held(office: Office) -> None:
    document = relay(rounds=4)
    office.answer(ask(document))
    assert (spent(office), held(office)) == (Decimal("0.25"), Decimal("0.75"))
    assert close(office) == {"kind": "noted", "charged": True}
    assert (spent(office), held(office)) == (Decimal("0.25"), 0)
    assert office.answer(ask(document, phase=1))["code"] == "document"
    assert office.outbox.request("t1").state == "closed"
    assert close(office) == {"kind": "noted", "charged": True}
    assert close(office, "unheard") == {"kind": "noted"}, "an ask of it may be on its way still"


def test_only_the_end_of_a_task_says_whether_it_was_charged(home: SiteHome, office: Office) -> None:
    private_files.write(home.policy, ALLOW)
    refused = office.answer(ask(relay(), requestor="eve"))
    assert (refused["code"], "charged" in refused) == ("policy", False)
    assert close(office) == close(office) == {"kind": "noted", "charged": False}
    assert office.answer(ask(relay(), task="t2"))["kind"] == "contribution"
    assert close(office, "t2") == close(office, "t2") == {"kind": "noted", "charged": True}


def test_a_task_that_is_closed_while_it_is_computed_is_charged_or_said_to_cost_nothing_but_never_both(
    home: SiteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a task overtakes its ask at every single step of it."""
    reaper, office = Reaper(monkeypatch), Office(home, "north")
    document = relay(epsilon=0.125)
    assert office.answer(ask(document, task="all"))["kind"] == "contribution"
    seen = set()
    for moment in range(reaper.moments):
        task, said, before = f"t{moment}", list[dict[str, Any]](), spent(office)

        def overtaken(task: str = task, said: list[dict[str, Any]] = said) -> None:
            if not (office.outbox._db.in_transaction or office.budget._lock._is_owned()):  # else it waits for a moment
                said.append(close(office, task))

        reaper.moments, reaper.at, reaper.happens = 0, moment, overtaken
        office.answer(ask(document, task=task))
        reaper.at = -1
        for word in said:
            if "charged" in word:
                assert word["charged"] is (spent(office) > before), moment
                assert (office.outbox.request(task).state, held(office)) == ("closed", 0)
                assert office.answer(ask(document, task=task))["kind"] == "refusal"
            seen.add(word.get("charged"))
    assert seen == {None, False, True}
    shut(office)


@pytest.mark.parametrize("thawed", [True, False])
def test_a_home_that_came_back_from_a_copy_never_says_what_it_charged(
    home: SiteHome, tmp_path: Path, thawed: bool
) -> None:
    """It has forgotten what it charged after the copy was made."""
    shutil.copytree(home.folder, tmp_path / "copy")
    first = Office(home, "north")
    assert first.answer(ask(relay()))["kind"] == "contribution"
    shut(first)
    home = SiteHome(tmp_path / "copy")
    with Ledger(home.ledger) as ledger:
        ledger.freeze()
        if thawed:
            ledger.thaw()
    private_files.write(home.policy, "")
    office = Office(home, "north")
    assert office.answer(ask(relay()))["code"] == "policy"
    assert close(office) == {"kind": "noted"}
    shut(office)


@pytest.mark.parametrize("document", [relay(rounds=2), QUERY], ids=["relay", "query"])
def test_a_task_whose_answers_are_lost_is_answered_no_more(home: SiteHome, document: dict[str, Any]) -> None:
    """Its claim is paid already, so each further answer would be another draw of noise for nothing."""
    asked = {"phase": 0} if document is not QUERY else {}
    office = Office(home, "north")
    first = office.answer(ask(document, **asked))
    assert first["kind"] == "contribution"
    paid = spent(office)
    shut(office)
    for part in home.folder.glob("outbox*"):
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    office = Office(home, "north")
    again = office.answer(ask(document, **asked))
    assert (again["kind"], again["code"], "lost" in again["reason"]) == ("refusal", "document", True)
    assert spent(office) == paid
    assert office.answer(ask(document, task="another", **asked))["kind"] == "contribution"
    shut(office)


def test_a_thaw_while_a_site_works_ends_its_words_of_charges(home: SiteHome, office: Office) -> None:
    private_files.write(home.policy, "")
    for task in ("t1", "t2"):
        assert office.answer(ask(relay(), task=task))["code"] == "policy"
    assert close(office, "t1") == {"kind": "noted", "charged": False}
    office.ledger.freeze()
    office.ledger.thaw()
    assert close(office, "t1") == close(office, "t2") == {"kind": "noted"}


def test_each_phase_is_charged_when_it_runs(office: Office) -> None:
    for phase in range(4):
        assert office.answer(ask(relay(rounds=4), phase=phase))["kind"] == "contribution"
        assert spent(office) == Decimal("0.25") * (phase + 1)
    assert held(office) == 0


def test_a_basic_block_charges_all_of_what_has_no_price_by_phase_with_the_first(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site", delta=1e-3, filter="basic"), "north")
    document = relay(rounds=4, delta=1e-5, name="gaussian")
    for phase in range(4):
        assert office.answer(ask(document, phase=phase))["kind"] == "contribution"
    meters = office.ledger.block("patients").meters
    assert meters["epsilon"].spent == 10**12
    assert meters["delta"].spent == 10**13
    shut(office)


@pytest.mark.parametrize("filter", ["zcdp", "renyi"])
def test_concentrated_and_renyi_blocks_charge_each_phase(tmp_path: Path, filter: str) -> None:
    office = Office(site_home(tmp_path / "site", delta=1e-6, filter=filter), "north")
    document = relay(rounds=4, delta=1e-5, name="gaussian")
    charges = []
    for phase in range(4):
        assert office.answer(ask(document, phase=phase))["kind"] == "contribution"
        charges.append(spent(office))
    assert charges == [charges[0] * n for n in (1, 2, 3, 4)]
    refused = office.answer(ask(relay(delta=1e-5, name="approximate"), task="t2"))
    assert refused["code"] == "budget"
    assert f"{filter} filter" in refused["reason"]
    shut(office)


@pytest.mark.parametrize("filter", ["basic", "either", "zcdp", "renyi"])
def test_a_training_that_stops_early_pays_for_the_phases_that_ran_and_gives_back_the_others(
    tmp_path: Path, filter: str
) -> None:
    """Also where the site was stopped in between; what was set aside for phases that never ran pays for others."""
    delta = 0.0 if filter == "basic" else 1e-6
    place = {"basic": "epsilon", "renyi": "8.0"}.get(filter, "rho")
    home = site_home(tmp_path / "site", epsilon=4.0, delta=delta, filter=filter)
    document = relay(rounds=4, epsilon=3.2, **({"delta": 1e-6, "name": "gaussian"} if delta else {}))

    def standing(office: Office) -> tuple[int, int]:
        meter = office.ledger.block("patients").meters[place]
        return meter.spent, meter.reserved

    office = Office(home, "north")
    assert office.answer(ask(document))["kind"] == "contribution"
    once, held = standing(office)
    assert once > 0 < held
    shut(office)
    office = Office(home, "north")
    assert office.answer(ask(document, phase=1))["kind"] == "contribution"
    assert standing(office) == (2 * once, held - once)
    assert close(office)["kind"] == "noted"
    assert standing(office) == (2 * once, 0)
    assert office.answer(ask(document, phase=2))["code"]  # it is over, and costs nothing more
    assert standing(office) == (2 * once, 0)
    assert office.ledger.verify()
    shut(office)


@pytest.mark.parametrize(("filter", "answers"), [(None, 5), ("basic", 5), ("zcdp", 1)])
def test_means_of_a_fifth_of_a_data_set_s_epsilon_are_five_by_default(
    tmp_path: Path, filter: str | None, answers: int
) -> None:
    """At (1, 1e-6), through the asks that a coordinator sends; by rhos alone there is room for one."""
    office = Office(site_home(tmp_path / "site", epsilon=1.0, delta=1e-6, filter=filter), "north")
    assert filter is not None or office.ledger.block("patients").filter == "either"
    mean = QUERY | {"statistic": "mean", "column": "age", "epsilon": 0.2}
    asked = [mean | {"where": f"age >= {number}"} for number in range(answers + 2)]
    codes = [office.answer(ask(each, task=f"t{number}")).get("code") for number, each in enumerate(asked)]
    assert codes == [None] * answers + ["budget"] * 2
    assert office.ledger.verify()
    shut(office)


def test_a_budget_is_never_passed_and_what_is_left_can_still_be_asked(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site", epsilon=1.0), "north")
    for number in range(10):
        assert office.answer(ask(relay(epsilon=0.1), task=f"t{number}"))["kind"] == "contribution"
    refused = office.answer(ask(relay(epsilon=0.1), task="one-more"))
    assert refused["code"] == "budget"
    assert spent(office) == 1
    shut(office)


def test_a_rule_is_a_budget_of_all_its_requestors_together(home: SiteHome) -> None:
    other = ALLOW.replace('["ana", "bob"]', '["carl"]')
    private_files.write(home.policy, ALLOW + other)
    office = Office(home, "north")
    codes = [
        office.answer(ask(relay(), task=f"t{number}", requestor=who)).get("code")
        for number, who in enumerate(["ana", "bob", "ana", "bob", "ana", "carl"])
    ]
    assert codes == [None, None, None, "budget", "budget", None]
    shut(office)


def test_a_rule_pays_no_more_than_what_it_has_left(home: SiteHome) -> None:
    private_files.write(home.policy, ALLOW)
    office = Office(home, "north")
    prices = [("ana", 2.0), ("bob", 1.5), ("bob", 0.75), ("ana", 0.5), ("ana", 0.25), ("bob", 0.25)]
    codes = [
        office.answer(ask(relay(epsilon=price), task=f"t{number}", requestor=who)).get("code")
        for number, (who, price) in enumerate(prices)
    ]
    assert codes == [None, "budget", None, "budget", None, "budget"]
    shut(office)


def test_a_rule_adds_up_what_documents_say_however_the_block_counts(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site", epsilon=50, delta=1e-6, policy=ALLOW)
    for life in range(2):
        office = Office(home, "north")
        for number in range(2 * life, 2 * life + 2):
            told = office.answer(ask(relay(delta=1e-6, name="gaussian"), task=f"t{number}"))
            assert told.get("code") == ("budget" if number == 3 else None)
        shut(office)
    private_files.write(home.policy, ALLOW.replace("= 3", "= 30") + "delta = 4e-6")
    office = Office(home, "north")
    codes = [office.answer(ask(relay(delta=1e-6, name="gaussian"), task=f"d{n}")).get("code") for n in range(2)]
    assert codes == [None, "budget"]
    shut(office)


def test_what_was_spent_under_a_rule_counts_after_a_restart_and_however_the_file_is_edited(home: SiteHome) -> None:
    private_files.write(home.policy, ALLOW)
    office = Office(home, "north")
    for number in range(3):
        assert office.answer(ask(relay(), task=f"t{number}"))["kind"] == "contribution"
    shut(office)
    office = Office(home, "north")
    assert office.answer(ask(relay(), task="t4"))["code"] == "budget"
    private_files.write(home.policy, "# edited\n" + ALLOW.replace("bob", "dora") + 'noise = ["coordinator", "site"]')
    assert office.answer(ask(relay(), task="t5"))["code"] == "budget"
    private_files.write(home.policy, ALLOW.replace("= 3", "= 4"))
    assert office.answer(ask(relay(), task="t6"))["kind"] == "contribution"
    assert office.answer(ask(relay(), task="t7"))["code"] == "budget"
    shut(office)


def test_claims_of_a_task_that_nobody_remembers_count_against_every_rule_of_its_requestor(home: SiteHome) -> None:
    private_files.write(home.policy, ALLOW)
    with Ledger(home.ledger) as ledger:
        ledger.reserve(["patients"], epsilon=3, purpose="from before", spender="ana").consume()
    office = Office(home, "north")
    assert office.answer(ask(relay(), requestor="bob"))["code"] == "budget"
    shut(office)


def test_what_a_task_gives_back_can_be_spent_again_under_its_rule(home: SiteHome) -> None:
    private_files.write(home.policy, ALLOW)
    office = Office(home, "north")
    assert office.answer(ask(relay(epsilon=3, rounds=3)))["kind"] == "contribution"
    assert office.answer(ask(relay(epsilon=2), task="t2"))["code"] == "budget"
    office.answer({"kind": "closed", "id": "c", "task": "t1"})
    assert office.answer(ask(relay(epsilon=2), task="t2"))["kind"] == "contribution"
    assert office.answer(ask(relay(epsilon=1), task="t3"))["code"] == "budget"
    shut(office)


def test_a_policy_that_changes_its_mind_stops_a_task_in_the_middle(home: SiteHome, office: Office) -> None:
    document = relay(rounds=3)
    assert office.answer(ask(document))["kind"] == "contribution"
    home.policy.unlink()
    assert office.answer(ask(document, phase=1))["code"] == "policy"
    assert office.answer(ask(document))["code"] == "policy"


def test_a_rule_that_is_made_smaller_stops_tasks_that_hold_more_than_it_allows(home: SiteHome) -> None:
    private_files.write(home.policy, ALLOW)
    office, document = Office(home, "north"), relay(epsilon=3, rounds=3)
    first = office.answer(ask(document))
    assert first["kind"] == "contribution"
    private_files.write(home.policy, ALLOW.replace("= 3", "= 2"))
    refused = office.answer(ask(document, phase=1))
    assert (refused["code"], spent(office)) == ("budget", Decimal(1))
    noted = office.outbox.request(refused["task"])
    assert noted is not None
    assert "rule 1 of policy.toml" in noted.reason
    assert office.answer(ask(document)) == first  # what has left already may leave again
    private_files.write(home.policy, ALLOW)
    assert office.answer(ask(document, phase=1))["kind"] == "contribution"
    shut(office)


def test_a_frozen_ledger_pays_for_nothing(home: SiteHome, office: Office) -> None:
    office.ledger.freeze()
    assert office.answer(ask(relay()))["code"] == "budget"
    office.ledger.thaw()
    assert office.answer(ask(relay()))["kind"] == "contribution"


def test_a_data_set_whose_file_was_changed_into_another_budget_is_not_answered(home: SiteHome, office: Office) -> None:
    path = home.datasets / "patients.toml"
    text = path.read_text()
    private_files.write(path, text.replace("epsilon = 10.0", "epsilon = 100.0"))
    assert office.answer(ask(relay()))["code"] == "dataset"
    private_files.write(path, "nonsense")
    assert office.answer(ask(relay()))["code"] == "dataset"
    private_files.write(path, text)
    assert office.answer(ask(relay()))["kind"] == "contribution"


def test_rows_that_are_gone_are_named_to_the_steward_only(
    home: SiteHome, office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    (home.folder / "patients.csv").unlink()
    refused = office.answer(ask(relay()))
    assert refused["code"] in ("dataset", "failed")
    assert "patients.csv" not in refused["reason"]
    assert "patients.csv" in caplog.text
    assert spent(office) == 0


def test_a_public_data_set_is_answered_without_noise_and_without_a_price(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site", public=True), "north")
    answer = office.answer(ask({**QUERY, "epsilon": 0, "privacy": "none"}))
    assert answer["kind"] == "contribution"
    assert answer["cost"] == {"epsilon": 0.0, "delta": 0.0}
    assert spent(office) == 0
    shut(office)


def test_no_data_set_that_is_not_public_is_answered_without_noise_whatever_its_kind_says(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(registry.kind("query")), "fits", lambda *_: None)
    refused = office.answer(ask({**QUERY, "epsilon": 0, "privacy": "none"}))
    assert refused["code"] == "policy"
    assert "with noise only" in refused["reason"]


def test_steady_answers_leave_at_whole_seconds_and_do_not_say_how_long_they_took(home: SiteHome) -> None:
    pauses: list[float] = []
    moments = iter([10.0, 10.3, 10.3, *([11.25] * 20)])
    office = Office(home, "north")
    office.desk._pause, office.desk._moment = pauses.append, lambda: next(moments)
    assert office.answer(ask(relay()))["seconds"] == {"compute": 0.31}
    private_files.write(home.policy, ALLOW + "steady = true")
    moments = iter([10.0, 10.3, 11.25])
    assert "seconds" not in office.answer(ask(relay(), task="t2"))
    moments = iter([10.0, 12.75])
    assert office.answer(ask(relay(trouble="after"), task="t3"))["code"] == "failed"
    moments = iter([10.0, 10.6])
    assert office.answer({**ask(QUERY, task=""), "kind": "quote"})["kind"] == "quoted"
    assert [round(pause, 6) for pause in pauses] == [0.7, 0.25, 0.4]
    shut(office)


def test_a_site_tells_schemas_without_keys_and_never_how_many_rows_it_has(tmp_path: Path) -> None:
    schema = {
        "unit": "person",
        "max_rows_per_unit": 2,
        "columns": {"who": {"type": "string", "key": True}, "age": {"type": "integer", "low": 0, "high": 100}},
    }
    home = SiteHome(tmp_path / "site")
    import pandas as pd

    from tests.support.site_home import declare

    declare(home, pd.DataFrame({"who": ["a", "b"], "age": [1, 2]}), schema=schema)
    office = Office(home, "north")
    told = office.answer({"kind": "describe", "id": "d"})
    assert list(told["datasets"]) == ["patients"]
    assert told["datasets"]["patients"]["rows"] is None
    assert list(told["datasets"]["patients"]["schema"]["columns"]) == ["age"]
    shut(office)


def test_everything_a_site_did_for_whom_stands_in_its_log(home: SiteHome, office: Office) -> None:
    private_files.write(home.policy, ALLOW)
    office.answer(ask(relay()))
    office.answer(ask(relay()))
    office.answer(ask(relay(), task="t2", requestor="eve"))
    office.answer({"kind": "closed", "id": "c", "task": "t1"})
    events = [(entry.event, entry.facts.get("task")) for entry in office.audit.entries()]
    assert events == [
        *(("ask", "t1"), ("allowed", "t1"), ("answer", "t1")),
        *(("ask", "t1"), ("allowed", "t1"), ("answer", "t1")),
        *(("ask", "t2"), ("refused", "t2")),
        ("closed", "t1"),
    ]
    facts = [entry.facts for entry in office.audit.entries()]
    assert facts[0]["requestor"] == "ana"
    assert facts[2]["epsilon"] == "1.0"
    assert facts[5]["epsilon"] == "0"
    assert facts[6]["requestor"] == "eve"
    assert facts[7]["code"] == "policy"


@pytest.mark.parametrize("broken", [(Audit, "note"), (ResponseStore, "keep")], ids=["log", "outbox"])
def test_an_answer_leaves_only_where_both_the_log_and_the_outbox_have_it(
    office: Office, monkeypatch: pytest.MonkeyPatch, broken: tuple[type, str]
) -> None:
    real = getattr(*broken)

    def full(self: Any, *told: Any, **more: Any) -> Any:
        if told[0][0] == "answer" or broken[1] == "keep":
            raise OSError("no space left")
        return real(self, *told, **more)

    with monkeypatch.context() as patched:
        patched.setattr(*broken, full)
        assert office.answer(ask(relay()))["code"] == "failed"
    paid = spent(office)
    assert office.answer(ask(relay()))["kind"] == "contribution"
    assert spent(office) == paid == 1
    office.audit.verify()


def test_the_stewards_own_questions_are_answered(home: SiteHome, office: Office) -> None:
    office.answer(ask(relay()))
    office.answer(ask(relay(), task="t2", requestor="eve"))
    requests = office.answer({"kind": "requests", "id": "own-1"})["body"]
    assert {r["task"]: r["state"] for r in requests} == {"t1": "open", "t2": "open"}
    assert "asks the data set patients" in requests[0]["explanation"]
    ledger = office.answer({"kind": "ledger", "id": "own-2"})["body"]
    assert ledger["blocks"][0]["remaining"]["epsilon"] == 8
    assert ledger["rules"][0]["left"]["patients"]["epsilon"] == 8
    datasets = office.answer({"kind": "datasets", "id": "own-3"})["body"]
    assert datasets[0]["blocks"][0]["left"] == 0.8
    log = office.answer({"kind": "audit", "id": "own-4"})["body"]
    assert log["entries"][0]["event"] == "answer"
    assert str(home.folder) not in repr((requests, ledger, datasets, log))


def test_a_long_task_keeps_two_answers_and_forgets_them_all_at_its_end(office: Office) -> None:
    for phase in range(4):
        office.answer(ask(relay(rounds=4), phase=phase))
    kept = [office.outbox.answer("t1", f"phase-{phase}").body is not None for phase in range(4)]
    assert kept == [False, False, True, True]
    assert office.answer(ask(relay(rounds=4), phase=0))["code"] == "document"
    assert office.answer(ask(relay(rounds=4), phase=2))["kind"] == "contribution"
    office.answer({"kind": "closed", "id": "c", "task": "t1"})
    assert all(office.outbox.answer("t1", f"phase-{phase}").body is None for phase in range(4))
    assert spent(office) == 1


def test_large_answers_lie_in_files_that_are_gone_with_them(home: SiteHome, office: Office) -> None:
    documents = {"t1": relay(rounds=3, long=200_000), "t2": relay(long=200_000)}
    folder = home.folder / "outbox"
    first = {task: office.answer(ask(document, task=task)) for task, document in documents.items()}
    assert len(list(folder.iterdir())) == 2
    (folder / "left-behind.frame").write_bytes(b"by a process that was killed")
    shut(office)
    again = Office(home, "north")
    assert len(list(folder.iterdir())) == 2
    for task, document in documents.items():
        second = again.answer(ask(document, task=task))
        assert write_envelope({**first[task], "id": "x"}) == write_envelope({**second, "id": "x"})
    for phase in (1, 2):
        again.answer(ask(documents["t1"], phase=phase))
    assert len(list(folder.iterdir())) == 3
    for task in documents:
        again.answer({"kind": "closed", "id": "c", "task": task})
    assert list(folder.iterdir()) == []
    shut(again)


def test_a_task_whose_time_is_over_gives_back_what_it_holds_when_the_site_starts(home: SiteHome) -> None:
    office = Office(home, "north")
    document = relay(rounds=4, expires_at="2020-01-01T00:00:00+00:00")
    office.answer(ask(document))
    assert held(office) == Decimal("0.75")
    shut(office)
    office = Office(home, "north")
    assert (spent(office), held(office)) == (Decimal("0.25"), 0)
    shut(office)


# --- killed at every step ---------------------------------------------------------------------------------------


def life(office: Office, document: dict[str, Any], released: dict[str, set[bytes]]) -> None:
    """A whole task; what leaves is noted."""
    for phase in range(document["rounds"]):
        answer = office.answer(ask(document, phase=phase))
        assert answer["kind"] == "contribution"
        released.setdefault(f"phase-{phase}", set()).add(write_envelope({**answer, "id": "x"}))
    office.answer({"kind": "closed", "id": "c", "task": "t1"})


@pytest.mark.slow
@pytest.mark.parametrize(("filter", "long"), [("basic", 70), ("zcdp", 140_000)])
def test_killed_at_every_single_moment_spent_covers_what_left_and_nothing_is_paid_or_drawn_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: str, long: int
) -> None:
    reaper = Reaper(monkeypatch)
    document = relay(rounds=2, long=long)
    terms = {} if filter == "basic" else {"delta": 1e-6, "filter": filter}
    whole = Decimal(1) if filter == "basic" else Decimal("0.244918662404")  # twice 0.5 tanh(0.25)
    office = Office(site_home(tmp_path / "whole", **terms), "north")
    reaper.moments = 0
    life(office, document, {})
    moments = reaper.moments
    shut(office)
    assert moments > 25
    for moment in range(moments):
        home = site_home(tmp_path / f"killed-{moment}", **terms)
        released: dict[str, set[bytes]] = {}
        reaper.moments, reaper.at = 0, moment
        office = Office(home, "north")
        with pytest.raises(Killed):
            life(office, document, released)
        reaper.at = -1
        parts = len(released)
        assert spent(office) >= whole / 2 * parts  # everything that left was paid for
        shut(office)
        office = Office(home, "north")
        if office.outbox.request("t1") is None or office.outbox.request("t1").state != "closed":
            life(office, document, released)
        else:
            office.answer({"kind": "closed", "id": "c", "task": "t1"})
        assert all(len(answers) == 1 for answers in released.values()), moment  # one draw for each part
        assert (spent(office), held(office)) == (whole, 0), moment  # and one charge
        office.audit.verify()
        office.ledger.verify()
        shut(office)


def test_groups_that_nobody_declared_are_found_and_answered_for_one_price(tmp_path: Path) -> None:
    schema = {**AGES, "columns": {"drug": {"type": "string"}}}
    home = SiteHome(tmp_path / "open")
    private_files.write(home.policy, ALLOW)
    rows = pd.DataFrame({"drug": ["aspirin"] * 300 + ["statin"] * 200 + ["rare"]})
    declare(home, rows, schema=schema, epsilon=4, delta=1e-5, filter="basic")
    document = {**QUERY, "by": "drug", "epsilon": 2, "delta": 1e-6, "max_groups_per_person": 1}
    office = Office(home, "north")
    first = office.answer(ask(document))
    assert first["payload"] == {"keys": '["aspirin", "statin"]'}
    assert first["cost"] == {"epsilon": 1.0, "delta": 5e-7}
    told = {"ask_id": "t1.1", "part": "phase-1", "phase": 1, "partition": 0, "payload": {"keys": ["aspirin", "new"]}}
    second = office.answer(ask(document, phase=1, ask=told, payload=told["payload"]))
    found = second["payload"]["totals"]
    assert abs(found[0] - 300) < 40
    assert abs(found[1]) < 40
    assert (second["payload"]["made_epsilon"], second["payload"]["made_delta"]) == (1.0, 0.0)
    close(office)
    with Ledger(home.ledger) as ledger:
        left = ledger.remaining("patients")
        assert (float(left.epsilon), float(left.delta)) == (2.0, pytest.approx(9e-6))
    shut(office)


def test_a_budget_that_cannot_pay_a_delta_refuses_to_find_groups_in_words(tmp_path: Path) -> None:
    home = SiteHome(tmp_path / "open")
    private_files.write(home.policy, ALLOW)
    schema = {**AGES, "columns": {"drug": {"type": "string"}}}
    declare(home, pd.DataFrame({"drug": ["aspirin"] * 300}), schema=schema, epsilon=4, delta=1e-5)
    office = Office(home, "north")
    answer = office.answer(ask({**QUERY, "by": "drug", "delta": 1e-6, "max_groups_per_person": 1}))
    assert answer["kind"] == "refusal"
    assert "basic filter" in answer["reason"]
    shut(office)

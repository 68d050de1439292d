"""A kind without end that Draw and Discard knows nothing of: a histogram of each day, asked as days come.

Through a real coordinator and real homes of people in this process, whose clock is moved by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.coordinator import Front, HandClock
from tests.support.postgres import new_database
from thebes.coordinator.training.model_store import TrainingStore
from thebes.data.rows import Rows
from thebes.ledger import BudgetExceeded
from thebes.person.home import Person
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.simulation import example
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask, Closed, Setting, StaleContribution, Wait
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.scene import WIDENED
from thebes.testing.audit import audit
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Conflict

sys.path.insert(0, str(Path(__file__).parent))
from daily.kind import KIND, mechanism_of

PEOPLE, DAYS = 12, 3
DOCUMENT: dict[str, Any] = {
    "type": "daily",
    "epsilon": 12.0,
    "days": DAYS,
    "min_count": PEOPLE,
    "featurizer": "SELECT gender FROM profile.demographics",
    "bounds": {"gender": {"type": "set", "values": ["Male", "Female"], "default": "Female"}},
}
EACH = 4.0
SHARED = pytest.param("shared", marks=pytest.mark.postgres)


@pytest.fixture(autouse=True)
def _daily(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("thebes.coordinator.training.endless_task.SHOWN_SECONDS", 0.0)
    with registry.registered("daily"):
        yield


@pytest.fixture
def clock() -> HandClock:
    """Noon of a day whose number leaves nothing when divided by the days that one person is asked."""
    return HandClock(datetime(2030, 1, 1, 12, tzinfo=UTC))


@pytest.fixture(params=["alone", SHARED])
def store(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "alone" else new_database()


class Wire(httpx.BaseTransport):
    """Requests of people to a coordinator of this process."""

    def __init__(self, front: Front) -> None:
        self._inner = front.transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        response.read()
        return response


def home(folder: Path, front: Front, seed: int, *, limit: float = 100.0) -> Person:
    client = CoordinatorClient("http://127.0.0.1:1", transport=Wire(front), retries=0)
    person = Person(folder, client=client, delay=False, clock=lambda: front.clock.moment.timestamp())
    example.fill(person, seed=seed)
    person.set_settings({trust: {"epsilon": 100.0, "overall_epsilon": limit} for trust in ("local", "trusted")})
    return person


def spent(person: Person) -> dict[str, float]:
    told = person.ledger()["local"]["overall"]
    return {what: float(told[what]["epsilon"]) for what in ("spent", "reserved")}


def sent(front: Front, task_id: str, day: int, contributor: str, value: int = 0) -> httpx.Response:
    """Send a value for a day to its part, whatever is asked now."""
    digest = front.task(task_id)["digest"][:16]
    message = {"ask_id": f"{digest}.{day}", "part": part_of(0, day % DAYS, DAYS), "contributor": contributor}
    return front.submit(task_id, {**message, "payload": {"day": day, "value": value}})


def heard(front: Front, task_id: str) -> int:
    """Count the reports in the database, whatever a process remembers."""
    facts = TrainingStore(front.database).read(task_id).facts
    counted = sum(sum(counts) for counts in facts["heard"]["reports"].values())
    assert counted == sum(facts["counts"])
    return counted


@pytest.mark.slow
def test_each_day_is_asked_of_everybody_paid_for_and_released_until_an_operator_closes_it(
    tmp_path: Path, clock: HandClock
) -> None:
    with Front(tmp_path / "coordinator", clock=clock) as front, ExitStack() as homes:
        people = [homes.enter_context(home(tmp_path / f"{n}", front, n)) for n in range(PEOPLE)]
        men = sum(person.newest("profile", "demographics")[-1]["gender"] == "Male" for person in people)
        task_id = front.post(DOCUMENT)
        assert front.close_task(task_id).status_code == 409  # there is nothing to keep yet
        assert "Price of one weight" not in front.client.get(f"/task/{task_id}").text
        days = []
        for day in range(DAYS):
            days.append(clock.moment.date().isoformat())
            for person in people:
                assert person.task(task_id)["turns_left"] == DAYS - day
                person.accept(task_id)
                assert person.wait(task_id)["state"] == "sent"
                assert spent(person) == {"spent": pytest.approx(EACH * (day + 1)), "reserved": 0}
            told = front.task(task_id)
            assert (told["status"], told["contributions"]) == ("open", PEOPLE * (day + 1))
            release = release_from_json(told["result"])
            assert release.extra["reports_of_day"] == dict.fromkeys(days, PEOPLE)
            assert list(release.value) == [f"{each} {value}" for each in days for value in ("Male", "Female")]
            bar = release.interval()
            assert bar is not None
            half = (np.asarray(bar.high) - np.asarray(bar.low)) / 2
            truth = np.array([men, PEOPLE - men] * len(days))
            assert (np.abs(np.array(list(release.value.values())) - truth) <= WIDENED * half).all()
            assert (release.certificate.epsilon, release.certificate.delta) == (DOCUMENT["epsilon"], 0)
            page = front.client.get(f"/task/{task_id}").text
            assert all(f"How many had which value on {each}" in page for each in days)
            clock.move(days=1)
        assert front.client.get(f"/task/{task_id}/training.csv").text.split() == ['"contributions"', str(PEOPLE * DAYS)]
        with pytest.raises(Conflict, match=f"takes {DAYS} participations of one person"):
            people[0].accept(task_id)
        clock.move(days=400)  # it has no end of its own
        front.closing.step()
        assert front.task(task_id)["status"] == "open"
        last = front.task(task_id)["result"]
        assert front.close_task(task_id).status_code == 204
        front.closing.step()
        ended = front.task(task_id)
        assert (ended["status"], ended["result"], ended["contributions"]) == ("done", last, PEOPLE * DAYS)
        assert front.progress(task_id)["days"] == dict.fromkeys(days, PEOPLE)
        people[0].poll()
        assert people[0].participations()[-1]["state"] == "done"


def test_nobody_is_asked_twice_on_one_day_and_nothing_is_paid_while_waiting(tmp_path: Path, clock: HandClock) -> None:
    with Front(tmp_path / "coordinator", clock=clock) as front, home(tmp_path / "me", front, 1) as me:
        task_id = front.post(DOCUMENT)
        me.accept(task_id)
        assert me.wait(task_id)["state"] == "sent"
        me.accept(task_id)
        with pytest.raises(Refusal, match="still reserved"):
            me.wait(task_id, timeout=0.2)
        assert spent(me) == {"spent": EACH, "reserved": EACH}
        clock.move(days=1)
        assert me.wait(task_id)["state"] == "sent"
        assert spent(me) == {"spent": 2 * EACH, "reserved": 0}
        assert front.task(task_id)["contributions"] == 2


def test_a_persons_limit_holds_it_however_long_it_goes_on(tmp_path: Path, clock: HandClock) -> None:
    with Front(tmp_path / "coordinator", clock=clock) as front, home(tmp_path / "me", front, 1, limit=2.5 * EACH) as me:
        task_id = front.post(DOCUMENT)
        for _ in range(2):
            me.accept(task_id)
            assert me.wait(task_id)["state"] == "sent"
            clock.move(days=1)
        with pytest.raises(BudgetExceeded):
            me.accept(task_id)
        assert spent(me) == {"spent": 2 * EACH, "reserved": 0}
        assert front.task(task_id)["contributions"] == 2


@pytest.mark.slow
def test_a_report_that_has_its_receipt_is_counted_once_whatever_becomes_of_the_process(
    tmp_path: Path, clock: HandClock, store: str | None
) -> None:
    today = (clock.moment.date() - datetime(1970, 1, 1).date()).days
    with Front(tmp_path / "coordinator", clock=clock, store=store) as front:
        task_id = front.post(DOCUMENT)
        receipts = []
        for number in range(1, 6):
            answer = sent(front, task_id, today, f"{number:032x}")
            assert answer.status_code == 202, answer.text
            receipts.append(answer.json()["receipt"])
            assert heard(front, task_id) == number  # before anything settles: as if the process were killed now
    with Front(tmp_path / "coordinator", clock=clock, store=store) as front:
        assert sent(front, task_id, today, f"{1:032x}").json()["receipt"] == receipts[0]
        assert sent(front, task_id, today, f"{1:032x}", 1).status_code == 409
        for number in range(6, PEOPLE + 1):
            assert sent(front, task_id, today, f"{number:032x}", 1).status_code == 202
        assert heard(front, task_id) == front.task(task_id)["contributions"] == PEOPLE
        assert sum(front.task(task_id)["result"]["reports_of_day"].values()) == PEOPLE


@pytest.mark.postgres
def test_what_several_processes_take_adds_up_and_max_count_holds_for_all_of_them(
    tmp_path: Path, clock: HandClock
) -> None:
    today, database = (clock.moment.date() - datetime(1970, 1, 1).date()).days, new_database()
    with (
        Front(tmp_path / "coordinator", clock=clock, store=database) as one,
        Front(tmp_path / "coordinator", clock=clock, store=database) as other,
    ):
        task_id = one.post({**DOCUMENT, "max_count": PEOPLE})
        for number in range(PEOPLE):
            answer = sent((one, other)[number % 2], task_id, today, f"{number:032x}", number % 2)
            assert answer.status_code == 202, answer.text
            assert heard(one, task_id) == number + 1
        for front in (one, other):
            assert sent(front, task_id, today, "f" * 32).status_code == 410
        one.closing.step()
        ended = other.task(task_id)
        assert (ended["status"], ended["contributions"]) == ("done", PEOPLE)
        assert list(ended["result"]["reports_of_day"].values()) == [PEOPLE]


def test_only_today_and_the_day_before_are_heard_each_in_its_own_part() -> None:
    document = registry.check(DOCUMENT)
    setting = Setting(unit=Unit.DEVICE, randomness=seeded_for_simulation(1))
    aggregator: Any = registry.aggregator(document, setting)
    aggregator.advance(datetime(2030, 1, 2, tzinfo=UTC))
    today = (datetime(2030, 1, 2).date() - datetime(1970, 1, 1).date()).days
    asked = [aggregator.ask("somebody", packet) for packet in range(DAYS)]
    assert [type(each) for each in asked] == [Ask if n == today % DAYS else Wait for n in range(DAYS)]

    def said(day: int, part_of_day: int) -> None:
        fields = {"day": np.array([day]), "value": np.array([0])}
        aggregator.accept(Contributions(part_of(0, part_of_day % DAYS, DAYS), 1, fields))

    said(today, today)
    said(today - 1, today - 1)
    with pytest.raises(StaleContribution):
        said(today - 2, today - 2)
    for day, part in ((today + 1, today + 1), (today, today + 1)):
        with pytest.raises(Mistake):
            said(day, part)
    digest = document.digest[:16]
    assert aggregator.asked(f"{digest}.{today}", "s", today % DAYS)
    assert not aggregator.asked(f"{digest}.{today}", "s", (today + 1) % DAYS)
    assert not aggregator.asked(f"{digest}.{today + 1}", "s", (today + 1) % DAYS)
    assert not aggregator.asked(f"{digest}.9x", "s", 0)
    assert not isinstance(aggregator.ask("somebody", today % DAYS), Closed)
    aggregator.advance(datetime(2020, 1, 1, tzinfo=UTC))  # a clock that is set back opens no earlier day
    with pytest.raises(StaleContribution):
        said(today - 3, today - 3)


def reports(days: int, epsilon: float, people: int, seed: int) -> np.ndarray[Any, Any]:
    """Return what people who are all men send on one day."""
    document: Any = registry.check({**DOCUMENT, "days": days, "epsilon": epsilon})
    rows = Rows.one_each({"gender": np.full(people, "Male", dtype=object)})
    ask = Ask("any", part_of(0, 0, days), 0, {"day": 0})
    claim, source = RecordedClaim(), seeded_for_simulation(seed)
    given = registry.owner(document).contribute(document, ask, rows, claim, randomness=source)
    assert float(claim.epsilon) == pytest.approx(epsilon / days)
    return np.asarray(given.fields["value"])


def test_each_days_report_is_a_fresh_draw_at_an_equal_share_of_the_price() -> None:
    """Five standard deviations about the true chance; the chances of a share 30 % off lie far outside."""
    people = 50_000
    first, second = (reports(3, 3.0, people, seed) for seed in (1, 2))
    hold = float(RandomizedResponse(2, 1.0).hold)
    error = 5 * (hold * (1 - hold) / people) ** 0.5
    for told in (first, second):
        assert abs(float(np.mean(told == 0)) - hold) <= error
        for wrong in (0.7, 1.3, 3.0):
            assert abs(float(np.mean(told == 0)) - float(RandomizedResponse(2, wrong).hold)) > error
    agree = hold**2 + (1 - hold) ** 2  # of two draws that know nothing of each other
    assert abs(float(np.mean(first == second)) - agree) <= 5 * (agree * (1 - agree) / people) ** 0.5


def test_a_days_bar_covers_as_often_as_it_says() -> None:
    """Of 600 days of 200 people the bars should hold 570; 540 would be more than five standard deviations fewer."""
    document: Any = registry.check({**DOCUMENT, "min_count": 1})
    report, men, covered = mechanism_of(document), 60, 0
    truth = np.where(np.arange(200) < men, 0, 1)
    for seed in range(600):
        aggregator: Any = registry.aggregator(document, Setting(Unit.DEVICE, seeded_for_simulation(seed)))
        values = report.perturb(truth, seeded_for_simulation(10_000 + seed)).astype(int)
        counts = np.bincount(values, minlength=2).tolist()
        aggregator.recall({"counts": [200, 0, 0], "heard": {"reports": {"0": counts}}})
        bar = aggregator.release().interval(0.95)
        covered += bool(bar.low[0] <= men <= bar.high[0])
    assert covered >= 540


def test_its_rows_of_the_audit_hold_and_the_broken_one_is_caught() -> None:
    honest, broken = audit(registry.audit("daily"))
    assert (honest.verdict, broken.verdict) == ("holds", "caught")


def test_a_simulated_crowd_answers_every_day_it_is_asked() -> None:
    """Of 400 people half are men; the noise of each day has a standard deviation of at most 3.2."""
    men = ["Male", "Female"] * 200
    release = simulate(DOCUMENT, {"gender": men}, seed=3)
    assert release.extra["reports_of_day"] == {f"1970-01-0{day}": 400 for day in (1, 2, 3)}
    assert all(abs(count - 200) <= 16 for count in release.value.values())
    assert len(set(release.value.values())) > 2, "each day has noise of its own"


def test_what_no_day_could_pay_for_is_refused_by_name() -> None:
    for change, field in (
        ({"delta": 1e-6}, "delta"),
        ({"diagnostics": 0.1}, "diagnostics"),
        ({"epsilon": 1e-6}, "days"),
        ({"bounds": {"gender": {"type": "set", "values": ["Male", "Female"]}}}, "bounds"),
    ):
        with pytest.raises(Mistake) as refused:
            registry.check({**DOCUMENT, **change})
        assert refused.value.argument == field
    assert f"epsilon {EACH:g}" in KIND.explain(registry.check(DOCUMENT))  # type: ignore[arg-type]

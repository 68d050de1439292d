"""A model checked by people of its own: who is asked when, what they pay and are told, what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thebes
from tests.support.coordinator import Front
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import drawn, slot_of
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release_reader import release_from_json

RANGE = {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0}
LABEL = {"type": "set", "values": ["no", "yes"], "default": "no"}
ENSEMBLE: dict[str, Any] = {
    "type": "ensemble",
    "epsilon": 4.0,
    "min_count": 60,
    "featurizer": "SELECT x, y FROM p.t",
    "label": "y",
    "bounds": {"x": RANGE, "y": LABEL},
    "bins": {"x": [0.0]},
    "quality": True,
}
BOUNDED: dict[str, Any] = {
    **{name: ENSEMBLE[name] for name in ("epsilon", "min_count", "featurizer", "bounds", "quality")},
    "type": "bounded",
    "predicted": "y",
}
DOCUMENTS = {"ensemble": ENSEMBLE, "bounded": BOUNDED}
KINDS = pytest.mark.parametrize("told", DOCUMENTS.values(), ids=DOCUMENTS.keys())
FAR = {"expires_at": "2100-01-01T00:00:00+00:00"}


def people(count: int, *, useful: bool = True) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    x = np.clip(draw.normal(size=count), -4, 4)
    shown = x if useful else draw.normal(size=count)
    return {"x": x, "y": np.where(shown + 0.5 * draw.normal(size=count) > 0, "yes", "no")}


def answer(front: Front, task_id: str, document: Any, slot: str, row: dict[str, Any]) -> str | None:
    """Send what is wanted of a slot; the part it went to, None where it has to wait."""
    told = front.client.get(f"/api/task/{task_id}/ask", params={"slot": slot}).json()
    if "part" not in told:
        return None
    ask, owner, claim = (
        Ask(told["ask_id"], told["part"], told["phase"], told["payload"]),
        registry.owner(document),
        RecordedClaim(),
    )
    rows = Rows.one_each({name: np.array([value]) for name, value in row.items()})
    made = owner.contribute(document, ask, rows, claim, randomness=randomness.system())
    payload = next(iter(made.payloads(owner.layout(document, ask))))
    body = {"ask_id": ask.ask_id, "part": ask.part, "contributor": slot, "payload": payload}
    assert front.submit(task_id, body).status_code == 202
    assert float(claim.epsilon) == pytest.approx(document.epsilon, abs=1e-6)
    return ask.part


def taught(front: Front, document: Any) -> tuple[str, list[str]]:
    """A task whose model is made, and the slots that were kept apart meanwhile."""
    task_id, table, apart = front.post(document.as_json()), people(400), []
    for number in range(400):
        slot = slot_of(f"peer {number}", 1)
        if front.task(task_id)["contributions"] < document.min_count:
            row = {name: values[number] for name, values in table.items()}
            if answer(front, task_id, document, slot, row) is None:
                apart.append(slot)
    front.closing.step()
    return task_id, apart


@KINDS
def test_a_model_that_is_better_is_shown_to_be_so(told: dict[str, Any]) -> None:
    release = thebes.simulate(told, {"p.t": people(6000)}, seed=1)
    found = release.quality
    assert found is not None
    assert str(found.verdict) == "better than guessing"
    assert found.interval.low > 0
    assert 0.08 < (found.share or 0) < 0.12
    assert "people that it was not made from" in str(release)
    assert release.certificate.contributors == 6000
    assert release.certificate.epsilon == 4.0  # nobody pays for both
    assert release.certificate.parameters["checked_by"]["people"] == found.people


@KINDS
def test_a_useless_model_comes_with_a_warning(told: dict[str, Any]) -> None:
    release = thebes.simulate(told, {"p.t": people(6000, useful=False)}, seed=1)
    assert release.quality is not None
    assert release.quality.warns
    assert "warning: the model" in str(release)


@KINDS
def test_a_document_that_does_not_say_so_is_answered_as_before(told: dict[str, Any]) -> None:
    plain = {name: value for name, value in told.items() if name != "quality"}
    document: Any = registry.check(plain)
    assert "quality" not in document.as_json()
    assert document.phases == document.phases_to_learn
    release = thebes.simulate(plain, {"p.t": people(600)}, seed=1)
    assert release.quality is None
    off = registry.check({**plain, "quality": False})
    assert off.digest != document.digest
    assert "not checked" in str(thebes.simulate(off, {"p.t": people(600)}, seed=1))


@KINDS
def test_whoever_is_asked_is_told_of_the_check(told: dict[str, Any]) -> None:
    document = registry.check(told)
    words = registry.drawn(document.type).explain(document)
    assert "asked instead once the model is there" in words
    assert registry.drawn(document.type).price(document).epsilon == 4


@KINDS
def test_a_check_takes_no_task_that_is_kept_open_until_its_end(told: dict[str, Any]) -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check({**told, "max_count": 100})
    assert refused.value.argument == "max_count"


@KINDS
def test_each_slot_has_one_part_to_play(told: dict[str, Any]) -> None:
    document: Any = registry.check(told)
    setting = Setting(unit=Unit.DEVICE, randomness=randomness.seeded_for_simulation(1))
    aggregator = registry.aggregator(document, setting)
    slots = [slot_of(f"peer {number}", 1) for number in range(400)]
    asked = [isinstance(aggregator.ask(slot), Ask) for slot in slots]
    assert asked == [not drawn(slot, document.phases_to_learn, document.kept_apart) for slot in slots]
    assert 0.1 < 1 - np.mean(asked) < 0.4


@KINDS
def test_the_model_is_released_before_it_is_checked_and_again_after(told: dict[str, Any], tmp_path: Path) -> None:
    document: Any = registry.check(told)
    with Front(tmp_path) as front:
        task_id, apart = taught(front, document)
        early = front.task(task_id)
        assert early["status"] == "open"
        assert early["result"]["quality"] is None
        assert "are being asked" in str(release_from_json(early["result"]))
        assert len(apart) >= document.checkers
        row = {"x": 1.0, "y": "yes"}
        parts = [answer(front, task_id, document, slot, row) for slot in apart[: document.checkers]]
        assert set(parts) == {f"phase-{document.phases_to_learn}"}
        front.closing.step()
        body = front.task(task_id)
        assert body["status"] == "done"
        release = release_from_json(body["result"])
        assert release.quality is not None
        assert release.quality.people == document.checkers
        assert release.certificate.contributors == document.min_count + document.checkers
        assert body["result"]["value"] == early["result"]["value"]


@KINDS
def test_a_deadline_ends_a_check_with_whoever_answered(told: dict[str, Any], tmp_path: Path) -> None:
    document: Any = registry.check({**told, **FAR})
    with Front(tmp_path) as front:
        task_id, apart = taught(front, document)
        answer(front, task_id, document, apart[0], {"x": 1.0, "y": "yes"})
        front.clock.move(days=40_000)
        front.closing.step()
        body = front.task(task_id)
        assert (body["status"], body["result"]["quality"]["people"]) == ("done", 1)
        assert release_from_json(body["result"]).quality.warns  # type: ignore[union-attr]


@KINDS
def test_a_check_that_nobody_answers_leaves_the_model(told: dict[str, Any], tmp_path: Path) -> None:
    document: Any = registry.check({**told, **FAR})
    with Front(tmp_path) as front:
        task_id, _ = taught(front, document)
        front.clock.move(days=40_000)
        front.closing.step()
        body = front.task(task_id)
        assert (body["status"], body["result"]["quality"]) == ("done", None)
        assert "answered in time" in str(release_from_json(body["result"]))


BAD: dict[str, list[Any]] = {
    "ensemble": [
        {},
        {"base": [0.5, 0.5]},
        {"base": [0.5], "members": []},
        {"base": [0.0, 1.0], "members": []},
        {"base": [0.5, 0.5], "members": [{"features": [], "weight": 1, "table": [[1e999, 0]]}]},
        {"base": "ab", "members": "cd"},
    ],
    "bounded": [
        {},
        {"weights": [[1.0]], "starts": [0.0], "guess": 0},
        {"weights": [[1.0, 2.0]], "starts": [0.0], "guess": 0, "classes": [0]},
        {"weights": [[1.0]], "starts": [1e999], "guess": 0, "classes": [0]},
        {"weights": "no", "starts": None, "guess": [], "classes": {}},
    ],
}


@pytest.mark.parametrize(("kind", "payload"), [(kind, each) for kind, bad in BAD.items() for each in bad])
def test_an_ask_that_holds_no_model_of_the_task_is_not_answered(kind: str, payload: Any) -> None:
    document: Any = registry.check(DOCUMENTS[kind])
    phase, claim = document.phases_to_learn, RecordedClaim()
    rows = Rows.one_each({"x": np.zeros(1), "y": np.array(["yes"])})
    with pytest.raises(Mistake, match="did not keep to the task"):
        registry.owner(document).contribute(
            document, Ask("a", f"phase-{phase}", phase, payload), rows, claim, randomness=randomness.system()
        )
    assert claim.epsilon == 0


@KINDS
def test_whoever_has_no_label_says_that_neither_is_right(told: dict[str, Any]) -> None:
    """Nobody's report tells more than its three answers; a missing value is no fourth."""
    bounds = {**told["bounds"], "y": {"type": "set", "values": ["no", "yes"]}}
    release = thebes.simulate({**told, "bounds": bounds, "epsilon": 20.0}, {"p.t": _half_missing()}, seed=1)
    assert release.quality is not None
    assert abs(release.quality.value) < 0.75


def _half_missing() -> dict[str, Any]:
    table = people(4000)
    table["y"] = np.array([None if number % 2 else value for number, value in enumerate(table["y"])], dtype=object)
    return table


def test_a_model_of_numbers_is_checked_by_its_squared_error() -> None:
    draw = np.random.default_rng(2)
    x = draw.uniform(-1, 1, 8000)
    span = {"type": "range", "low": -1.0, "high": 1.0, "default": 0.0}
    told = {**BOUNDED, "featurizer": "SELECT x, z FROM p.t", "bounds": {"x": span, "z": span}, "predicted": "z"}
    found = {}
    for useful in (True, False):
        z = np.clip(np.sign(x if useful else draw.normal(size=x.size)) * 0.9 + 0.1 * x, -1, 1)
        release: Any = thebes.simulate({**told, "epsilon": 8.0}, {"p.t": {"x": x, "z": z}}, seed=1)
        model = release.fit("linear", output="z")
        gains = np.square((z - np.clip(np.mean(z), -1, 1)) / 2) - np.square((z - model.predict({"x": x})) / 2)
        found[useful] = release.quality
        assert release.quality.interval.low < gains.mean() < release.quality.interval.high
        assert release.quality.metric == "squared gain"
        assert "fit('linear', output='z')" in str(release)
    assert not found[True].warns
    assert found[False].warns


def test_rows_are_checked_where_it_is_said_for_which_model() -> None:
    for more in (
        {"predicted": None},
        {"predicted": "nobody"},
        {"featurizer": "SELECT y FROM p.t", "bounds": {"y": LABEL}},
    ):
        with pytest.raises(InvalidDocument) as refused:
            registry.check({**BOUNDED, **more})
        assert refused.value.argument == "predicted"

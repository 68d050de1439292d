"""The requirements on every kind of task, as one suite: give it a `Sample` and call each check."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.answer_view import Section
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions, read_payloads
from thebes.tasks.document import Document, InvalidDocument
from thebes.tasks.protocols import Ask, Closed, Setting, State, TaskClosed
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.samples import Sample
from thebes.testing import prices
from thebes.testing.people_runs import NOON, _contributed, begin, checked, expect, given_by, run, turns_of

_NEARLY = Decimal(1) - Decimal("1e-6")  #: shares of a price are rounded down
#: values that are wrong, or at least suspicious, in any field
POISON: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**400,
    "",
    "x" * 30_000,
    [],
    {},
    [[]],
    {"a": {"b": []}},
    float("nan"),
)


def _same(first: Release | None, second: Release | None) -> bool:
    return first is not None and second is not None and json.dumps(first.as_json()) == json.dumps(second.as_json())


# --- the checks ---------------------------------------------------------------------------------------


def check_what_pages_show_is_what_they_can_draw(sample: Sample) -> None:
    """Whatever its kind says of a document and its answer is of the type that its protocol names."""
    document, aggregator, _ = run(sample)
    kind, release = registry.drawn(document.type), aggregator.release()
    expect(bool(kind.subject(document.as_json()) and kind.explain(document)), "subject or explain says nothing")
    assert release is not None
    view = registry.view(document.type)
    for section in view.sections(release, document):
        expect(isinstance(section, Section), f"sections of view.py gave a {type(section).__name__} for a Section")
    head, lines = view.table(release)
    expect({len(line) for line in lines} <= {len(head)}, "table of view.py gave rows of another length than its head")


def check_the_price_is_the_documents_epsilon_and_delta(sample: Sample) -> None:
    document = registry.check(sample.document)
    price = registry.drawn(document.type).price(document)
    expect(price.epsilon == Decimal(str(document.epsilon)), "the price is not the document's epsilon")
    expect(price.delta == Decimal(str(document.delta)), "the price is not the document's delta")


def check_every_budget_has_a_price_or_is_refused_by_name(sample: Sample) -> None:
    model = type(registry.check(sample.document))
    for told in (*prices.budgets(sample.document), *prices.extremes(sample.document, model)):
        document = priced(told)
        if document is not None and told.get("partitions", 1) <= 1000 and told.get("instances", 1) <= 1000:
            setting = Setting(unit=Unit.PERSON, randomness=randomness.seeded_for_simulation(1), simulated=True)
            registry.aggregator(document, setting)


def priced(told: Mapping[str, Any]) -> Document | None:
    """The document, whose price was looked at; None where it is refused, naming a field."""
    try:
        document = registry.check(told)
    except Mistake as refused:
        expect(bool(refused.argument and refused.message), "a refusal does not name a field")
        return None
    kind = registry.drawn(document.type)
    price = kind.price(document)
    expect(price.epsilon.is_finite() and price.epsilon > 0 and 0 <= price.delta < 1, f"a price is {price}")
    expect(price.epsilon >= Decimal(str(document.epsilon)), "a price is less than the document's epsilon")
    expect(price.delta >= Decimal(str(document.delta)), "a price is less than the document's delta")
    expect(bool(kind.explain(document)), "nothing explains a document")
    return document


def check_reading_twice_changes_nothing(sample: Sample) -> None:
    document = registry.check(sample.document)
    again = registry.check(json.loads(json.dumps(document.as_json())))
    expect(again == document and again.digest == document.digest, "a document's digest depends on how it was written")


def check_the_explanation_names_what_is_read(sample: Sample) -> None:
    document = checked(sample)
    words = registry.drawn(document.type).explain(document)
    for table, columns in document.reads.items():
        expect(table in words, f"the explanation does not name the table {table}")
        expect(all(column in words for column in columns), "the explanation does not name every column")
    expect(f"{document.epsilon:g}" in words, "the explanation does not name the price")


def check_unknown_fields_are_refused_by_name(sample: Sample) -> None:
    try:
        registry.check({**sample.document, "surprise": 1})
    except InvalidDocument as refused:
        expect("surprise" in [field for field, _ in refused.problems], "an unknown field is not named")
    else:
        raise AssertionError("an unknown field was accepted")


def wrong_documents(sample: Sample) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field (also inside objects) wrong in turn, with every poison; generated, not hand-picked."""

    def places(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if path:
            yield path
        items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, (list, tuple)) else ()
        for key, value in items:
            yield from places(value, (*path, key))

    whole = json.loads(json.dumps(registry.check(sample.document).as_json()))
    for path in places(whole, ()):
        for poison in POISON:
            broken = copy.deepcopy(whole)
            parent = broken
            for step in path[:-1]:
                parent = parent[step]
            if parent[path[-1]] == poison:
                continue
            parent[path[-1]] = poison
            yield str(path[0]), broken


def check_a_wrong_field_is_refused_by_name_or_makes_another_document(sample: Sample) -> None:
    """No poison ends in anything but acceptance as another document, or a refusal that names a field and no value."""
    whole = registry.check(sample.document)
    for top, broken in wrong_documents(sample):
        try:
            checked = registry.check(broken)
        except InvalidDocument as refused:
            expect(all(field for field, _ in refused.problems), f"a wrong {top} is refused without naming a field")
            expect(len(str(refused)) < 1000, f"the refusal of a wrong {top} repeats a long value")
        else:
            expect(checked.digest != whole.digest or broken.get(top) is None, f"a changed {top} keeps the digest")


def check_everybody_pays_the_price_and_no_more(sample: Sample) -> None:
    document, _, heard = run(sample)
    price = registry.drawn(document.type).price(document)
    for ask, _, claim in heard:
        most = document.participations * document.packets(ask.phase)
        expect(claim.epsilon * most <= price.epsilon, "a part spends more than its share of the price")
        less = claim.epsilon * most < price.epsilon * _NEARLY
        expect(not less, "a part pays less than its share of the price, and the ledger would forget the rest")
        expect(claim.delta * most <= price.delta, "a part spends more than its share of delta")


def check_the_price_is_paid_before_noise_is_drawn(sample: Sample) -> None:
    document, aggregator, rows, source = begin(sample)
    for phase, people in enumerate(turns_of(sample, document, rows)):
        aggregator.expect(len(people))
        for _, given, _ in given_by(document, aggregator, rows, people, phase, source, sealed=True):
            aggregator.accept(given)
        aggregator.advance(NOON)


def check_everybody_who_can_gives_one_contribution(sample: Sample) -> None:
    """Also who has two rows, and who has none that can be read."""
    document, _, rows, _ = begin(sample)
    able = registry.owner(document, simulated=True).able(document, rows)
    expect(
        isinstance(able, np.ndarray) and able.dtype == np.bool_ and able.shape == (rows.people,),
        "`able` gives one True or False for each person, as an array",
    )
    document, aggregator, rows, source = begin(sample)
    for phase, people in enumerate(turns_of(sample, document, rows)):
        aggregator.expect(len(people))
        heard = 0
        for _, given, _ in given_by(document, aggregator, rows, people, phase, source):
            heard += given.count
            aggregator.accept(given)
        expect(heard == len(people) * document.packets(phase), "some who can contribute do not, or do so twice")
        aggregator.advance(NOON)


def check_who_has_no_value_sends_what_anybody_could_have_sent(sample: Sample) -> None:
    """Or cannot agree, and the document says that taking part tells; who agreed by a rule sends all the same."""
    document, aggregator, rows, source = begin(sample)
    nothing = {name: np.full(len(values), None, dtype=object) for name, values in rows.columns.items()}
    blank = Rows(nothing, rows.person, rows.people, rows.failures)
    owner = registry.owner(document, simulated=True)
    told = bool(np.all(owner.able(document, blank))) or getattr(document, "taking_part_tells", False)
    expect(told, "who has no value cannot agree, by `able`: say so by `taking_part_tells` of the document")
    aggregator.expect(1)
    ask = aggregator.ask("s")
    assert isinstance(ask, Ask)
    try:
        given = owner.contribute(document, ask, blank.select(np.array([0])), RecordedClaim(), randomness=source)
    except Exception as error:
        said = f"`contribute` ends in {type(error).__name__} for who has no value and has agreed by a standing rule"
        raise AssertionError(said) from error
    aggregator.accept(_contributed(given, owner))


def check_a_contribution_survives_its_json(sample: Sample) -> None:
    document, aggregator, heard = run(sample)
    for ask, given, _ in heard:
        layout = aggregator.layout(ask.part, ask.partition)
        few = Contributions(given.part, min(3, given.count), {name: a[:3] for name, a in given.fields.items()})
        expect(registry.owner(document, simulated=True).layout(document, ask) == layout, "the halves' layouts differ")
        travelled = [json.loads(json.dumps(payload)) for payload in few.payloads(layout)]
        back = read_payloads(layout, ask.part, travelled)
        for name, array in few.fields.items():
            if array.dtype.kind == "U":
                expect(bool((array == back.fields[name]).all()), f"{name} changes on the way")
            else:
                expect(
                    np.allclose(
                        array.astype(float), back.fields[name].astype(float), rtol=1e-6, atol=1e-6, equal_nan=True
                    ),
                    f"{name} changes on the way",
                )


def check_out_of_domain_contributions_are_refused(sample: Sample) -> None:
    document, aggregator, rows, source = begin(sample)
    aggregator.expect(1)
    ask = aggregator.ask("s")
    assert isinstance(ask, Ask)
    layout = aggregator.layout(ask.part, ask.partition)
    owner = registry.owner(document, simulated=True)
    good = _contributed(
        owner.contribute(document, ask, rows.select(np.array([0])), RecordedClaim(), randomness=source), owner
    )
    payload = next(iter(good.payloads(layout)))
    wrong: tuple[Any, ...] = ("x", [], {}, True, float("inf"), 10**400)
    for name, poison in [(n, p) for n in payload for p in wrong]:
        slot = layout[name]
        if slot.kind == "text" and isinstance(poison, str):
            continue
        try:
            read_payloads(layout, ask.part, [{**payload, name: poison}])
        except Mistake as refused:
            expect(name in refused.argument, "the refusal does not name the field")
        else:
            raise AssertionError(f"{name} may be {type(poison).__name__}")
    others: tuple[Any, ...] = ({**payload, "surprise": 1}, dict(list(payload.items())[1:]), None, [])
    for broken in others:
        try:
            read_payloads(layout, ask.part, [broken])
        except Mistake:
            continue
        raise AssertionError("a payload with other fields was accepted")


def check_the_release_is_the_same_every_time_and_survives_its_json(sample: Sample) -> None:
    _, aggregator, _ = run(sample)
    release = aggregator.release()
    expect(_same(release, aggregator.release()), "asking again gives another answer")
    assert release is not None
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    expect(_same(release, back) and type(back) is type(release), "a release changes when it is stored")


def check_the_certificate_claims_the_price_and_no_more(sample: Sample) -> None:
    document, aggregator, _ = run(sample)
    release = aggregator.release()
    assert release is not None
    certificate = release.certificate.as_json()
    expect(certificate["epsilon"] == document.epsilon, "the certificate's epsilon is not the contributor's total")
    expect(certificate["delta"] <= document.delta, "the certificate claims a delta beyond the document's")
    expect(certificate["unit"] == "person" and certificate["simulated"] is True, "declared people are simulated")
    expect(bool(certificate["mechanism"]) and bool(certificate["text"]), "the certificate says too little")


def check_the_certificate_says_what_every_certificate_must(sample: Sample) -> None:
    _, aggregator, _ = run(sample)
    release = aggregator.release()
    assert release is not None
    for note in getattr(aggregator, "notes", ()):
        expect(note in release.certificate.text, f"the certificate leaves out {note[:60]!r}: give it notes=self.notes")


def check_an_error_bar_holds_its_value_and_a_surer_one_is_wider(sample: Sample) -> None:
    _, aggregator, _ = run(sample)
    release = aggregator.release()
    assert release is not None
    value = release.value
    numbers = np.asarray(list(value.values()) if isinstance(value, Mapping) else value, dtype=object)
    inner: tuple[Any, Any] | None = None
    for _, bar in sorted(release.intervals.items()):
        low, high = np.asarray(bar.low, dtype=np.float64), np.asarray(bar.high, dtype=np.float64)
        expect(low.shape in ((), numbers.shape), "an error bar has another shape than its value")
        if numbers.dtype == object and all(isinstance(each, int | float | np.number) for each in numbers.ravel()):
            held = numbers.astype(np.float64)
            expect(bool(((low <= held) & (held <= high)).all()), "an error bar does not hold its own value")
        if inner is not None:
            expect(bool(((low <= inner[0]) & (inner[1] <= high)).all()), "a surer error bar is not the wider one")
        inner = low, high


def check_diagnostics_are_released_or_refused(sample: Sample) -> None:
    try:
        document = registry.check({**sample.document, "diagnostics": 0.2})
    except InvalidDocument as refused:
        expect(bool(refused.problems), "diagnostics are refused without a reason")
        return
    _, aggregator, _ = run(replace(sample, document=document.as_json()))
    release = aggregator.release()
    if release is not None:
        told = "diagnostics may be asked for, and people are told so, and the release has none: refuse them by name"
        expect("diagnostics" in release.extra, told)


def check_a_snapshot_continues_where_it_was_taken(sample: Sample) -> None:
    """Half of every phase is heard before a snapshot, the rest by a new aggregator that restored it: with the same
    chance from there on, both end in the same release."""
    document, _, rows, source = begin(sample)
    turns = turns_of(sample, document, rows)
    ends = []
    ready: list[list[Contributions]] = []
    for restarted in (None, False, True):  # the first asks and is heard; the others only hear what it was told
        later = Setting(unit=Unit.PERSON, randomness=randomness.seeded_for_simulation(99), simulated=True)
        aggregator = registry.aggregator(document, later)
        for phase, people in enumerate(turns):
            aggregator.expect(len(people))
            if restarted is None:
                given = [batch for _, batch, _ in given_by(document, aggregator, rows, people, phase, source)]
                ready.append([half for batch in given for half in _halves(batch)])
            for number, batch in enumerate(ready[phase]):
                if restarted and number == len(ready[phase]) // 2:
                    snapshot = aggregator.snapshot()
                    aggregator = registry.aggregator(document, later)
                    aggregator.restore(snapshot)
                    aggregator.expect(len(people))
                aggregator.accept(batch)
            aggregator.advance(NOON)
        ends.append(aggregator.release())
    expect(_same(ends[1], ends[2]), "a restart changes the answer")


def _halves(batch: Contributions) -> Iterator[Contributions]:
    middle = batch.count // 2
    for span in (slice(0, middle), slice(middle, batch.count)):
        fields = {name: values[span] for name, values in batch.fields.items()}
        yield Contributions(batch.part, len(range(*span.indices(batch.count))), fields, batch.partition)


def check_nothing_is_taken_after_the_end(sample: Sample) -> None:
    _, aggregator, heard = run(sample)
    expect(isinstance(aggregator.ask("s"), Closed), "a finished task still asks")
    before = json.dumps(aggregator.release().as_json())  # type: ignore[union-attr]
    try:
        aggregator.accept(heard[-1][1])
    except TaskClosed:
        pass
    else:
        raise AssertionError("a contribution was taken after the end")
    expect(json.dumps(aggregator.release().as_json()) == before, "a refused contribution changed the release")  # type: ignore[union-attr]


def check_too_few_by_the_deadline_release_nothing(sample: Sample) -> None:
    whole = registry.check(sample.document).as_json()
    timed = {**whole, "expires_at": NOON.isoformat(), "min_count": 1_000_000}
    document = registry.check(timed)
    source = randomness.seeded_for_simulation(sample.seed)
    aggregator = registry.aggregator(document, Setting(unit=Unit.DEVICE, randomness=source))
    aggregator.advance(NOON.replace(hour=11))
    expect(aggregator.state is State.OPEN, "a task ended before its deadline")
    aggregator.advance(NOON)
    expect(aggregator.state is State.EXPIRED and aggregator.release() is None, "too few people, and yet a release")


CHECKS = tuple(value for name, value in sorted(globals().items()) if name.startswith("check_"))

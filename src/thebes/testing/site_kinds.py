"""The requirements on every kind that institutions answer, as one suite: give it a `SiteSample` and call each check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import numpy as np

from thebes.data.schema import schema_of
from thebes.ledger.filters import FILTERS
from thebes.privacy import randomness
from thebes.privacy.accounting.report import total
from thebes.privacy.events import Repeated
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.promise import Adjacency, Unit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.block_price import cost
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Ask, Closed, Setting, State, TaskClosed, Wait
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.samples import Sample, SiteSample
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Convened
from thebes.testing import kinds, prices
from thebes.testing.people_runs import expect
from thebes.testing.site_runs import NOON, answered, begun, checked, first_answer, run, schemas_of, written
from thebes.wire import frames

_QUICK = ("pure", "concentrated", "renyi")


# --- the checks ---------------------------------------------------------------------------------------


def check_the_price_is_the_documents_epsilon_and_delta(sample: SiteSample) -> None:
    kinds.check_the_price_is_the_documents_epsilon_and_delta(_people(sample))


def check_every_budget_has_a_price_or_is_refused_by_name(sample: SiteSample) -> None:
    if "epsilon" not in sample.document:
        return
    kind, model, schema = registry.site_kind(checked(sample)), type(checked(sample)), schema_of(sample.schema)
    for told in (*prices.budgets(sample.document), *prices.extremes(sample.document, model)):
        document = cast("SiteDocument | None", kinds.priced(told))
        if document is None or document.by_accuracy or document.in_attempts:
            continue
        try:
            kind.fits(document, schema)
        except Mistake as refused:
            expect(bool(refused.argument and refused.message), "a refusal does not name a field")
            continue
        event = kind.event(document, schema)
        for filter in FILTERS:
            with suppress(Refusal):  # which says that this filter counts something else
                cost(document, event, filter)
        due = total(
            Repeated(event, document.phases),
            adjacency=Adjacency.ADD_REMOVE_ONE,
            delta=document.delta,
            unit=Unit.PERSON,
            accountants=_QUICK if getattr(document, "batch", None) else (*_QUICK, "approximate", "gaussian"),
        )
        said = Decimal(str(document.epsilon))
        expect(due.epsilon <= said * (1 + Decimal("1e-9")) + Decimal("1e-11"), f"{said} is said, {due.epsilon} is due")
        begun(document, dict.fromkeys(sample.sites, schema), 1)


def check_reading_twice_changes_nothing(sample: SiteSample) -> None:
    kinds.check_reading_twice_changes_nothing(_people(sample))


def check_unknown_fields_are_refused_by_name(sample: SiteSample) -> None:
    kinds.check_unknown_fields_are_refused_by_name(_people(sample))


def check_a_wrong_field_is_refused_by_name_or_makes_another_document(sample: SiteSample) -> None:
    kinds.check_a_wrong_field_is_refused_by_name_or_makes_another_document(_people(sample))


def _people(sample: SiteSample) -> Sample:
    """The sample as far as only its document matters."""
    return Sample(sample.name, sample.document, None, sample.seed)


def check_the_explanation_names_what_is_read(sample: SiteSample) -> None:
    document = checked(sample)
    words = registry.drawn(document.type).explain(document)
    for said in (document.dataset, f"{document.epsilon:g}" if document.epsilon else "public", *document.reads):
        expect(said in words, f"the explanation does not say {said!r}")


def check_a_data_set_without_a_column_is_refused_naming_it(sample: SiteSample) -> None:
    document = checked(sample)
    kind = registry.site_kind(document)
    kind.fits(document, schema_of(sample.schema))
    for name in document.reads:
        columns = {other: column for other, column in sample.schema["columns"].items() if other != name}
        try:
            kind.fits(document, schema_of({**sample.schema, "columns": {**columns, "spare": {"type": "string"}}}))
        except Mistake as refused:
            expect(bool(refused.argument) and repr(name) in refused.message, f"a missing {name} is not named")
        else:
            raise AssertionError(f"a data set without {name} would be asked")


def check_all_phases_together_cost_no_more_than_the_document_says(sample: SiteSample) -> None:
    document, kind = checked(sample), registry.site_kind(checked(sample))
    for rows in (1, 3):
        body = dict(sample.schema)
        if any(column.get("key") for column in body["columns"].values()):
            body["max_rows_per_unit"] = rows
        event = kind.event(document, schema_of(body))
        paid = total(
            Repeated(event, document.phases),
            adjacency=Adjacency.ADD_REMOVE_ONE,
            delta=document.delta,
            unit=Unit.PERSON,
        )
        expect(float(paid.epsilon) <= document.epsilon * (1 + 1e-9), f"all phases cost epsilon {paid.epsilon:.6g}")


def check_nobody_spends_more_than_the_price(sample: SiteSample) -> None:
    document, _, heard = run(sample)
    price = registry.drawn(document.type).price(document)
    for site in sample.sites:
        spent = [claim for name, _, _, claim in heard if name == site]
        epsilon = sum((claim.epsilon for claim in spent), Decimal(0))
        expect((epsilon > 0) is (document.epsilon > 0), "a site spends nothing")
        expect(epsilon <= price.epsilon, "a site spends more than the price")
        expect(sum((claim.delta for claim in spent), Decimal(0)) <= price.delta, "a site spends more than delta")


def check_a_contribution_survives_its_way(sample: SiteSample) -> None:
    """As JSON and as a frame between a site and the coordinator."""
    document, aggregator, _, ask, given = first_answer(sample)
    layout = aggregator.layout(ask.part, ask.partition)
    owner = (
        registry.site_owner(document, simulated=True) if not document.in_attempts else registry.stream_owner(document)
    )
    expect(owner.layout(document, ask, schema_of(sample.schema)) == layout, "the halves' layouts differ")
    payload = next(iter(given.payloads(layout)))
    message = {"kind": "contribution", "id": "1", "payload": payload}
    framed = frames.read(frames.write(frames.split(message)))
    for travelled in (json.loads(json.dumps(payload)), framed.message(arrays=True)["payload"]):
        back = read_payloads(layout, ask.part, [travelled], ask.partition)
        expect(back.count == 1 and back.partition == ask.partition, "a contribution is told as another's")
        for name, array in given.fields.items():
            expect(_near(array, back.fields[name]), f"{name} changes on the way")
        aggregator.examine(back)


def _near(one: Any, other: Any) -> bool:
    if one.dtype.kind == "U":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one.astype(float), other.astype(float), rtol=1e-6, atol=1e-6))


def check_out_of_domain_contributions_are_refused(sample: SiteSample) -> None:
    _, aggregator, _, ask, given = first_answer(sample)
    layout = aggregator.layout(ask.part, ask.partition)
    payload = next(iter(given.payloads(layout)))
    wrong: tuple[Any, ...] = ("x", [], {}, True, float("inf"), float("nan"), 10**400, None)
    for name, value in payload.items():
        bent = [[poison, *value[1:]] for poison in wrong] if isinstance(value, list) else []
        longer = [[*value, 0], value[:-1]] if isinstance(value, list) else []
        for poison in (*wrong, *bent, *longer):
            try:
                aggregator.examine(read_payloads(layout, ask.part, [{**payload, name: poison}], ask.partition))
            except Mistake as refused:
                expect(name in refused.argument, f"the refusal of a wrong {name} does not name it")
            else:
                raise AssertionError(f"{name} may be wrong")
    others: tuple[Any, ...] = ({**payload, "surprise": 1}, dict(list(payload.items())[1:]), None, [])
    for broken in others:
        try:
            read_payloads(layout, ask.part, [broken], ask.partition)
        except Mistake:
            continue
        raise AssertionError("a payload with other fields was accepted")


def check_a_site_cannot_answer_for_another_twice_or_something_else(sample: SiteSample) -> None:
    _, aggregator, site, ask, given = first_answer(sample)
    for broken in (replace(given, partition=len(sample.sites)), replace(given, partition=-1), replace(given, count=2)):
        try:
            aggregator.accept(broken)
        except Mistake:
            continue
        raise AssertionError("a contribution of nobody was taken")
    expect(aggregator.asked(ask.ask_id, site), "a site's own ask is not known")
    others = [other for other in aggregator.awaited if other != site]
    expect(not any(aggregator.asked(ask.ask_id, other) for other in others), "one site's ask is another's too")
    aggregator.accept(given)
    expect(site not in aggregator.awaited and isinstance(aggregator.ask(site), Wait), "a site is asked again")
    for again in (given, replace(given, part="phase-7")):
        try:
            aggregator.accept(again)
        except TaskClosed:
            continue
        raise AssertionError("a contribution was taken twice, or to another phase")
    try:
        aggregator.ask("nobody")
    except Mistake:
        return
    raise AssertionError("a site that is not asked got an ask")


def check_the_release_is_the_same_every_time_and_survives_its_json(sample: SiteSample) -> None:
    _, aggregator, _ = run(sample)
    release = aggregator.release()
    assert release is not None
    expect(written(release) == written(aggregator.release()), "asking again gives another answer")
    back = release_from_json(json.loads(written(release)))
    expect(written(back) == written(release) and type(back) is type(release), "a release changes when it is stored")
    expect(str(back) == str(release) and bool(release._repr_html_()), "a stored release reads differently")


def check_the_certificate_claims_the_price_and_no_more(sample: SiteSample) -> None:
    document, aggregator, heard = run(sample)
    release = aggregator.release()
    assert release is not None
    said = release.certificate.as_json()
    unit = "person" if sample.schema["unit"] == "person" else "event"
    expect(0 <= said["epsilon"] <= document.epsilon, "the certificate claims more than the document's epsilon")
    expect(said["delta"] <= document.delta, "the certificate claims a delta beyond the document's")
    spent = max(sum((p.epsilon for s, _, _, p in heard if s == site), Decimal(0)) for site in sample.sites)
    expect(Decimal(str(said["epsilon"])) >= spent, "the certificate claims less than was spent")
    expect(said["unit"] == unit and said["adjacency"] == "add-remove-one", "the certificate promises something else")
    trust = {"coordinator": "server", "split": "split"}.get(document.noise, "site")
    expect(said["trust"] == trust, "trust is said wrongly")
    expect(said["simulated"] is True and said["contributors"] is None, "a site's number of rows is private")
    expect((said["guarantee"] == "none") is (document.epsilon == 0), "a guarantee is claimed wrongly")
    expect(bool(said["mechanism"]) and bool(said["text"]), "the certificate says too little")


def check_the_release_says_who_answered(sample: SiteSample) -> None:
    _, aggregator, _ = run(sample)
    covered = _covered(aggregator)
    expect(covered == {"answered": sorted(sample.sites), "missing": {}}, "the coverage is wrong")


def _covered(aggregator: Convened) -> Any:
    release = aggregator.release()
    assert release is not None
    covered = release.extra["coverage"]
    return {"answered": covered["answered"], "missing": covered["missing"]}


def check_a_site_that_refuses_is_named_and_the_rest_goes_on(sample: SiteSample) -> None:
    if sample.alone:  # the check above: nobody is left who could go on
        return
    absent = sorted(sample.sites)[1]
    _, aggregator, heard = run(sample, away=lambda phase: (absent,), min_sites=len(sample.sites) - 1)
    covered = _covered(aggregator)
    expect(absent not in covered["answered"] and "policy" in covered["missing"][absent], "the refusal is not told")
    expect(absent not in {site for site, *_ in heard}, "a site that refused was heard")


def check_too_few_sites_release_nothing(sample: SiteSample) -> None:
    absent = sorted(sample.sites)[0]
    _, aggregator, _ = run(sample, away=lambda phase: (absent,), min_sites=len(sample.sites))
    expect(aggregator.state is State.EXPIRED and aggregator.release() is None, "too few sites, and yet a release")
    expect(absent in aggregator.missing, "nobody says who was missing")


def check_a_deadline_excuses_who_has_not_answered(sample: SiteSample) -> None:
    document = checked(sample, expires_at=NOON.isoformat())
    aggregator = begun(document, schemas_of(sample), sample.seed)
    aggregator.advance(NOON.replace(hour=11))
    expect(aggregator.state is State.OPEN, "a task ended before its deadline")
    aggregator.advance(NOON)
    expect(aggregator.state is State.EXPIRED and aggregator.release() is None, "nobody answered, and yet a release")
    expect(set(aggregator.missing) == set(sample.sites), "who did not answer is not said")


def check_a_site_that_declares_a_column_differently_is_named(sample: SiteSample) -> None:
    document, schemas, odd = checked(sample), schemas_of(sample), sorted(sample.sites)[-1]
    for name in document.reads if not sample.alone else ():
        column = {**sample.schema["columns"][name], "description": "something else"}
        columns = {**sample.schema["columns"], name: column}
        aggregator = begun(document, {**schemas, odd: schema_of({**sample.schema, "columns": columns})}, 1)
        expect(odd in aggregator.missing and name in aggregator.missing[odd], f"a differing {name} is not named")
        expect(set(aggregator.awaited) == set(sample.sites) - {odd}, "the wrong sites are waited for")


def check_a_site_that_cannot_answer_is_named(sample: SiteSample) -> None:
    document, schemas, odd = checked(sample), schemas_of(sample), sorted(sample.sites)[-1]
    if document.epsilon == 0:  # what is asked without noise is asked of all or of none
        return
    other = schema_of({"unit": "event", "columns": {"spare": {"type": "string"}}})
    aggregator = begun(document, {**schemas, odd: other}, 1)
    if document.reads:
        expect(odd in aggregator.missing and odd not in aggregator.awaited, "a site without the columns is asked")


def check_a_snapshot_continues_where_it_was_taken(sample: SiteSample) -> None:
    """An aggregator that is made anew from a snapshot before every single contribution ends in the same release."""
    document, whole, heard = run(sample)
    source = randomness.seeded_for_simulation(sample.seed + 1)
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites=schemas_of(sample))
    aggregator = registry.aggregator(document, setting)
    for site, ask, given, _ in heard:
        saved = aggregator.snapshot()
        aggregator = registry.aggregator(document, setting)
        aggregator.restore(saved)
        expect(_same_ask(aggregator.ask(site), ask), "a restart changes what is asked")
        aggregator.accept(given)
        aggregator.advance(NOON)
    expect(written(aggregator.release()) == written(whole.release()), "a restart changes the answer")
    done = registry.aggregator(document, setting)
    done.restore(aggregator.snapshot())
    expect(done.state is State.DONE and written(done.release()) == written(whole.release()), "the end is forgotten")
    others = {**schemas_of(sample), "another": schema_of(sample.schema)}
    try:
        registry.aggregator(document, replace(setting, sites=others)).restore(aggregator.snapshot())
    except Mistake:
        return
    raise AssertionError("a snapshot of other sites was taken")


def _same_ask(one: object, other: Ask) -> bool:
    if not isinstance(one, Ask) or (one.ask_id, one.part, one.partition) != (other.ask_id, other.part, other.partition):
        return False
    return all(np.array_equal(np.asarray(one.payload[name]), np.asarray(other.payload[name])) for name in other.payload)


def check_nothing_is_taken_after_the_end(sample: SiteSample) -> None:
    _, aggregator, heard = run(sample)
    expect(isinstance(aggregator.ask(sorted(sample.sites)[0]), Closed), "a finished task still asks")
    before = written(aggregator.release())
    try:
        aggregator.accept(heard[-1][2])
    except TaskClosed:
        pass
    else:
        raise AssertionError("a contribution was taken after the end")
    expect(written(aggregator.release()) == before, "a refused contribution changed the release")


def check_an_empty_site_is_no_signal(sample: SiteSample) -> None:
    """Whoever has no rows answers like everybody else, unless the totals leave without noise anyway. Of a stream the
    first and the last row stay: from when to when there are blocks is public."""
    document = checked(sample)
    kept = [0, -1] if document.in_attempts else []
    empty = {site: rows.iloc[kept] for site, rows in sample.sites.items()}
    _, aggregator, heard = run(replace(sample, sites=empty))
    expect(len(heard) >= len(sample.sites) and aggregator.release() is not None, "no rows, and no answer")
    if document.noise == "site" and document.epsilon:
        fields = heard[0][2].fields.values()
        expect(any(np.any(np.asarray(values) != 0) for values in fields), "no rows show as no noise")


def check_noise_is_drawn_where_the_document_says(sample: SiteSample) -> None:
    """Another seed changes what a site sends where it adds the noise, and only the release where it does not."""
    document, first, one = run(sample)
    _, second, other = run(sample, seed=sample.seed + 100)
    exact = document.noise == "coordinator" or not document.epsilon
    looked = 1 if exact else len(one)  # later phases follow from the coordinator's noise
    same = all(
        np.array_equal(mine.fields[name], yours.fields[name])
        for (_, _, mine, _), (_, _, yours, _) in zip(one[:looked], other[:looked], strict=False)
        for name in mine.fields
    )
    drawn = any(word in document.as_json() for word in ("batch",))  # who takes part may be drawn at the site as well
    expect(same == exact or (exact and drawn), "a site's contribution has noise where none belongs, or lacks it")
    expect((written(first.release()) == written(second.release())) is (not document.epsilon), "noise is missing")


def check_a_claim_that_refuses_stops_everything(sample: SiteSample) -> None:
    """Check that what cannot be paid for is not computed: no contribution is made."""
    document, _, site, ask, _ = first_answer(sample)
    if not document.epsilon:
        return

    class Empty(RecordedClaim):
        def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
            raise Refusal("nothing is left")

    try:
        answered(sample, document, ask, site, Empty(), randomness.seeded_for_simulation(1))
    except Refusal:
        return
    raise AssertionError("a contribution was made that nobody paid for")


def _checks() -> Iterator[Callable[[SiteSample], None]]:
    for name, value in sorted(globals().items()):
        if name.startswith("check_"):
            yield value


CHECKS = tuple(_checks())

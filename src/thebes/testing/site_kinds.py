"""The requirements on every kind that institutions answer, as one suite: give it a `SiteSample` and call each check."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import numpy as np

from thebes.curator.pipelines.simulated_attempts import simulated_attempts
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Table
from thebes.ledger.filters import FILTERS
from thebes.privacy import randomness
from thebes.privacy.accounting.report import total
from thebes.privacy.events import Repeated
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.promise import Adjacency, Unit
from thebes.tasks import registry
from thebes.tasks.audit.purse import Purse
from thebes.tasks.block_price import cost
from thebes.tasks.contributions import Contributions, read_payloads
from thebes.tasks.protocols import Ask, Closed, Setting, State, TaskClosed, Wait
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.samples import Sample, SiteSample
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Convened
from thebes.testing import kinds, prices
from thebes.wire import frames

_QUICK = ("pure", "concentrated", "renyi")
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


#: the tables of the samples that were checked last: every check asks them for the same sums
_READ = deque[tuple[Any, Table]](maxlen=8)


def _table(schema: Schema, rows: Any) -> Table:
    for known, table in _READ:
        if known is rows and table.schema == schema:
            return table
    _READ.append((rows, frame_table(schema, rows)))
    return _READ[-1][1]


def answered(
    sample: SiteSample, document: SiteDocument, ask: Ask, site: str, purse: Purse, source: randomness.Randomness
) -> Contributions:
    """Return what a site sends: from its table and a claim, or from attempts at its stream, which pay for
    themselves."""
    schema = schema_of(sample.schema)
    if not document.in_attempts:
        owner = registry.site_owner(document, simulated=True)
        return owner.contribute(document, ask, _table(schema, sample.sites[site]), purse, randomness=source)

    def rights(blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None:
        type(purse)().consume(epsilon=epsilon, delta=delta)  # whose claims refuse, theirs refuse every attempt

    rows, price = sample.sites[site], {"epsilon": document.epsilon, "delta": document.delta}
    with simulated_attempts(document.dataset, rows, schema, **price, source=source, rights=rights) as attempts:
        given = registry.stream_owner(document).attempt(document, ask, attempts)
        epsilon, delta = attempts.paid()
    purse.consume(epsilon=epsilon, delta=delta)
    return given


#: what a site sent to one ask, and the purse that paid for it
Heard = tuple[str, Ask, Contributions, Purse]


def _expect(truth: bool, message: str) -> None:
    if not truth:
        raise AssertionError(message)


def _checked(sample: SiteSample, **more: Any) -> SiteDocument:
    document = registry.check({**sample.document, **more})
    assert isinstance(document, SiteDocument)
    return document


def _aggregator(document: SiteDocument, schemas: Mapping[str, Schema], seed: int) -> Convened:
    source = randomness.seeded_for_simulation(seed)
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites=schemas)
    return registry.aggregator(document, setting)


def _schemas(sample: SiteSample) -> dict[str, Schema]:
    return {site: schema_of(sample.schema) for site in sample.sites}


def _run(
    sample: SiteSample,
    *,
    seed: int | None = None,
    away: Callable[[int], tuple[str, ...]] = lambda phase: (),
    **more: Any,
) -> tuple[SiteDocument, Convened, list[Heard]]:
    """Every phase to its end; `away` are the sites that refuse in it."""
    document = _checked(sample, **more)
    used = sample.seed if seed is None else seed
    source = randomness.seeded_for_simulation(used)
    aggregator = _aggregator(document, _schemas(sample), used + 1)
    heard: list[Heard] = []
    while aggregator.state is State.OPEN:
        refusing = away(len({ask.part for _, ask, _, _ in heard}))
        for site in aggregator.awaited:
            if site in refusing:
                aggregator.excuse(site, "its policy refuses this requestor")
                continue
            ask, purse = aggregator.ask(site), Purse()
            assert isinstance(ask, Ask)
            given = answered(sample, document, ask, site, purse, source)
            aggregator.accept(given)
            heard.append((site, ask, given, purse))
        aggregator.advance(_NOON)
    return document, aggregator, heard


def _first(sample: SiteSample) -> tuple[SiteDocument, Convened, str, Ask, Contributions]:
    """The first site's answer to the first ask, not yet heard."""
    document, aggregator = _checked(sample), _aggregator(_checked(sample), _schemas(sample), sample.seed)
    site = aggregator.awaited[0]
    ask = aggregator.ask(site)
    assert isinstance(ask, Ask)
    given = answered(sample, document, ask, site, Purse(), randomness.seeded_for_simulation(sample.seed))
    return document, aggregator, site, ask, given


def _written(release: Release | None) -> str:
    assert release is not None
    return json.dumps(release.as_json())


# --- the checks ---------------------------------------------------------------------------------------


def check_the_price_is_the_documents_epsilon_and_delta(sample: SiteSample) -> None:
    kinds.check_the_price_is_the_documents_epsilon_and_delta(_people(sample))


def check_every_budget_has_a_price_or_is_refused_by_name(sample: SiteSample) -> None:
    if "epsilon" not in sample.document:
        return
    kind, model, schema = registry.site_kind(_checked(sample)), type(_checked(sample)), schema_of(sample.schema)
    for told in (*prices.budgets(sample.document), *prices.extremes(sample.document, model)):
        document = cast("SiteDocument | None", kinds.priced(told))
        if document is None or document.by_accuracy or document.in_attempts:
            continue
        try:
            kind.fits(document, schema)
        except Mistake as refused:
            _expect(bool(refused.argument and refused.message), "a refusal does not name a field")
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
        _expect(due.epsilon <= said * (1 + Decimal("1e-9")) + Decimal("1e-11"), f"{said} is said, {due.epsilon} is due")
        _aggregator(document, dict.fromkeys(sample.sites, schema), 1)


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
    document = _checked(sample)
    words = registry.drawn(document.type).explain(document)
    for said in (document.dataset, f"{document.epsilon:g}" if document.epsilon else "public", *document.reads):
        _expect(said in words, f"the explanation does not say {said!r}")


def check_a_data_set_without_a_column_is_refused_naming_it(sample: SiteSample) -> None:
    document = _checked(sample)
    kind = registry.site_kind(document)
    kind.fits(document, schema_of(sample.schema))
    for name in document.reads:
        columns = {other: column for other, column in sample.schema["columns"].items() if other != name}
        try:
            kind.fits(document, schema_of({**sample.schema, "columns": {**columns, "spare": {"type": "string"}}}))
        except Mistake as refused:
            _expect(bool(refused.argument) and repr(name) in refused.message, f"a missing {name} is not named")
        else:
            raise AssertionError(f"a data set without {name} would be asked")


def check_all_phases_together_cost_no_more_than_the_document_says(sample: SiteSample) -> None:
    document, kind = _checked(sample), registry.site_kind(_checked(sample))
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
        _expect(float(paid.epsilon) <= document.epsilon * (1 + 1e-9), f"all phases cost epsilon {paid.epsilon:.6g}")


def check_nobody_spends_more_than_the_price(sample: SiteSample) -> None:
    document, _, heard = _run(sample)
    price = registry.drawn(document.type).price(document)
    for site in sample.sites:
        spent = [purse for name, _, _, purse in heard if name == site]
        epsilon = sum((purse.epsilon for purse in spent), Decimal(0))
        _expect((epsilon > 0) is (document.epsilon > 0), "a site spends nothing")
        _expect(epsilon <= price.epsilon, "a site spends more than the price")
        _expect(sum((purse.delta for purse in spent), Decimal(0)) <= price.delta, "a site spends more than delta")


def check_a_contribution_survives_its_way(sample: SiteSample) -> None:
    """As JSON and as a frame between a site and the coordinator."""
    document, aggregator, _, ask, given = _first(sample)
    layout = aggregator.layout(ask.part, ask.partition)
    owner = (
        registry.site_owner(document, simulated=True) if not document.in_attempts else registry.stream_owner(document)
    )
    _expect(owner.layout(document, ask, schema_of(sample.schema)) == layout, "the halves' layouts differ")
    payload = next(iter(given.payloads(layout)))
    message = {"kind": "contribution", "id": "1", "payload": payload}
    framed = frames.read(frames.write(frames.split(message)))
    for travelled in (json.loads(json.dumps(payload)), framed.message(arrays=True)["payload"]):
        back = read_payloads(layout, ask.part, [travelled], ask.partition)
        _expect(back.count == 1 and back.partition == ask.partition, "a contribution is told as another's")
        for name, array in given.fields.items():
            _expect(_near(array, back.fields[name]), f"{name} changes on the way")
        aggregator.examine(back)


def _near(one: Any, other: Any) -> bool:
    if one.dtype.kind == "U":
        return bool(np.array_equal(one, other))
    return bool(np.allclose(one.astype(float), other.astype(float), rtol=1e-6, atol=1e-6))


def check_out_of_domain_contributions_are_refused(sample: SiteSample) -> None:
    _, aggregator, _, ask, given = _first(sample)
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
                _expect(name in refused.argument, f"the refusal of a wrong {name} does not name it")
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
    _, aggregator, site, ask, given = _first(sample)
    for broken in (replace(given, partition=len(sample.sites)), replace(given, partition=-1), replace(given, count=2)):
        try:
            aggregator.accept(broken)
        except Mistake:
            continue
        raise AssertionError("a contribution of nobody was taken")
    _expect(aggregator.asked(ask.ask_id, site), "a site's own ask is not known")
    others = [other for other in aggregator.awaited if other != site]
    _expect(not any(aggregator.asked(ask.ask_id, other) for other in others), "one site's ask is another's too")
    aggregator.accept(given)
    _expect(site not in aggregator.awaited and isinstance(aggregator.ask(site), Wait), "a site is asked again")
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
    _, aggregator, _ = _run(sample)
    release = aggregator.release()
    assert release is not None
    _expect(_written(release) == _written(aggregator.release()), "asking again gives another answer")
    back = release_from_json(json.loads(_written(release)))
    _expect(_written(back) == _written(release) and type(back) is type(release), "a release changes when it is stored")
    _expect(str(back) == str(release) and bool(release._repr_html_()), "a stored release reads differently")


def check_the_certificate_claims_the_price_and_no_more(sample: SiteSample) -> None:
    document, aggregator, heard = _run(sample)
    release = aggregator.release()
    assert release is not None
    said = release.certificate.as_json()
    unit = "person" if sample.schema["unit"] == "person" else "event"
    _expect(0 <= said["epsilon"] <= document.epsilon, "the certificate claims more than the document's epsilon")
    _expect(said["delta"] <= document.delta, "the certificate claims a delta beyond the document's")
    spent = max(sum((p.epsilon for s, _, _, p in heard if s == site), Decimal(0)) for site in sample.sites)
    _expect(Decimal(str(said["epsilon"])) >= spent, "the certificate claims less than was spent")
    _expect(said["unit"] == unit and said["adjacency"] == "add-remove-one", "the certificate promises something else")
    _expect(said["trust"] == ("server" if document.noise == "coordinator" else "site"), "trust is said wrongly")
    _expect(said["simulated"] is True and said["contributors"] is None, "a site's number of rows is private")
    _expect((said["guarantee"] == "none") is (document.epsilon == 0), "a guarantee is claimed wrongly")
    _expect(bool(said["mechanism"]) and bool(said["text"]), "the certificate says too little")


def check_the_release_says_who_answered(sample: SiteSample) -> None:
    _, aggregator, _ = _run(sample)
    covered = _covered(aggregator)
    _expect(covered == {"answered": sorted(sample.sites), "missing": {}}, "the coverage is wrong")


def _covered(aggregator: Convened) -> Any:
    release = aggregator.release()
    assert release is not None
    covered = release.extra["coverage"]
    return {"answered": covered["answered"], "missing": covered["missing"]}


def check_a_site_that_refuses_is_named_and_the_rest_goes_on(sample: SiteSample) -> None:
    if sample.alone:  # the check above: nobody is left who could go on
        return
    absent = sorted(sample.sites)[1]
    _, aggregator, heard = _run(sample, away=lambda phase: (absent,), min_sites=len(sample.sites) - 1)
    covered = _covered(aggregator)
    _expect(absent not in covered["answered"] and "policy" in covered["missing"][absent], "the refusal is not told")
    _expect(absent not in {site for site, *_ in heard}, "a site that refused was heard")


def check_too_few_sites_release_nothing(sample: SiteSample) -> None:
    absent = sorted(sample.sites)[0]
    _, aggregator, _ = _run(sample, away=lambda phase: (absent,), min_sites=len(sample.sites))
    _expect(aggregator.state is State.EXPIRED and aggregator.release() is None, "too few sites, and yet a release")
    _expect(absent in aggregator.missing, "nobody says who was missing")


def check_a_deadline_excuses_who_has_not_answered(sample: SiteSample) -> None:
    document = _checked(sample, expires_at=_NOON.isoformat())
    aggregator = _aggregator(document, _schemas(sample), sample.seed)
    aggregator.advance(_NOON.replace(hour=11))
    _expect(aggregator.state is State.OPEN, "a task ended before its deadline")
    aggregator.advance(_NOON)
    _expect(aggregator.state is State.EXPIRED and aggregator.release() is None, "nobody answered, and yet a release")
    _expect(set(aggregator.missing) == set(sample.sites), "who did not answer is not said")


def check_a_site_that_declares_a_column_differently_is_named(sample: SiteSample) -> None:
    document, schemas, odd = _checked(sample), _schemas(sample), sorted(sample.sites)[-1]
    for name in document.reads if not sample.alone else ():
        column = {**sample.schema["columns"][name], "description": "something else"}
        columns = {**sample.schema["columns"], name: column}
        aggregator = _aggregator(document, {**schemas, odd: schema_of({**sample.schema, "columns": columns})}, 1)
        _expect(odd in aggregator.missing and name in aggregator.missing[odd], f"a differing {name} is not named")
        _expect(set(aggregator.awaited) == set(sample.sites) - {odd}, "the wrong sites are waited for")


def check_a_site_that_cannot_answer_is_named(sample: SiteSample) -> None:
    document, schemas, odd = _checked(sample), _schemas(sample), sorted(sample.sites)[-1]
    if document.epsilon == 0:  # what is asked without noise is asked of all or of none
        return
    other = schema_of({"unit": "event", "columns": {"spare": {"type": "string"}}})
    aggregator = _aggregator(document, {**schemas, odd: other}, 1)
    if document.reads:
        _expect(odd in aggregator.missing and odd not in aggregator.awaited, "a site without the columns is asked")


def check_a_snapshot_continues_where_it_was_taken(sample: SiteSample) -> None:
    """An aggregator that is made anew from a snapshot before every single contribution ends in the same release."""
    document, whole, heard = _run(sample)
    source = randomness.seeded_for_simulation(sample.seed + 1)
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites=_schemas(sample))
    aggregator = registry.aggregator(document, setting)
    for site, ask, given, _ in heard:
        saved = aggregator.snapshot()
        aggregator = registry.aggregator(document, setting)
        aggregator.restore(saved)
        _expect(_same_ask(aggregator.ask(site), ask), "a restart changes what is asked")
        aggregator.accept(given)
        aggregator.advance(_NOON)
    _expect(_written(aggregator.release()) == _written(whole.release()), "a restart changes the answer")
    done = registry.aggregator(document, setting)
    done.restore(aggregator.snapshot())
    _expect(done.state is State.DONE and _written(done.release()) == _written(whole.release()), "the end is forgotten")
    others = {**_schemas(sample), "another": schema_of(sample.schema)}
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
    _, aggregator, heard = _run(sample)
    _expect(isinstance(aggregator.ask(sorted(sample.sites)[0]), Closed), "a finished task still asks")
    before = _written(aggregator.release())
    try:
        aggregator.accept(heard[-1][2])
    except TaskClosed:
        pass
    else:
        raise AssertionError("a contribution was taken after the end")
    _expect(_written(aggregator.release()) == before, "a refused contribution changed the release")


def check_an_empty_site_is_no_signal(sample: SiteSample) -> None:
    """Whoever has no rows answers like everybody else, unless the totals leave without noise anyway. Of a stream the
    first and the last row stay: from when to when there are blocks is public."""
    document = _checked(sample)
    kept = [0, -1] if document.in_attempts else []
    empty = {site: rows.iloc[kept] for site, rows in sample.sites.items()}
    _, aggregator, heard = _run(replace(sample, sites=empty))
    _expect(len(heard) >= len(sample.sites) and aggregator.release() is not None, "no rows, and no answer")
    if document.noise == "site" and document.epsilon:
        fields = heard[0][2].fields.values()
        _expect(any(np.any(np.asarray(values) != 0) for values in fields), "no rows show as no noise")


def check_noise_is_drawn_where_the_document_says(sample: SiteSample) -> None:
    """Another seed changes what a site sends where it adds the noise, and only the release where it does not."""
    document, first, one = _run(sample)
    _, second, other = _run(sample, seed=sample.seed + 100)
    exact = document.noise == "coordinator" or not document.epsilon
    looked = 1 if exact else len(one)  # later phases follow from the coordinator's noise
    same = all(
        np.array_equal(mine.fields[name], yours.fields[name])
        for (_, _, mine, _), (_, _, yours, _) in zip(one[:looked], other[:looked], strict=False)
        for name in mine.fields
    )
    drawn = any(word in document.as_json() for word in ("batch",))  # who takes part may be drawn at the site as well
    _expect(same == exact or (exact and drawn), "a site's contribution has noise where none belongs, or lacks it")
    _expect((_written(first.release()) == _written(second.release())) is (not document.epsilon), "noise is missing")


def check_a_claim_that_refuses_stops_everything(sample: SiteSample) -> None:
    """Check that what cannot be paid for is not computed: no contribution is made."""
    document, _, site, ask, _ = _first(sample)
    if not document.epsilon:
        return

    class Empty(Purse):
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

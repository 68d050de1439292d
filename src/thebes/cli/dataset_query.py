"""`thebes dataset query`: what a site's steward asks about a data set of their own, at the site's home."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from thebes.cli import output
from thebes.cli.names import names
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from thebes.data.engines.table import EngineTable
    from thebes.data.growing.reader import GrownTable
    from thebes.data.table import Table
    from thebes.site.dataset import DataSet
    from thebes.site.home import SiteHome
    from thebes.site.steward.questions import StewardQuestion
    from thebes.tasks.query.kind import QueryDocument
    from thebes.tasks.release import Release

    _Read = dict[tuple[str, ...], EngineTable | GrownTable]  #: what was read, by its blocks

SITE = "local"  #: what the one site is called in the certificate


def query(
    name: output.DataSetName,
    home: output.SiteFolder,
    statistic: Annotated[str, typer.Option(help="count, sum, mean, variance, histogram, quantile or correlation.")],
    column: Annotated[
        list[str] | None, typer.Option(help="The column; for a correlation two, separated by a comma.")
    ] = None,
    where: Annotated[str | None, typer.Option(help="Which rows count: a condition in SQL.")] = None,
    by: Annotated[list[str] | None, typer.Option(help="The columns to group by, with commas between.")] = None,
    bins: Annotated[str | None, typer.Option(help="How many bins, or where to cut, with commas between.")] = None,
    quantile: Annotated[float | None, typer.Option(help="Which quantile, from 0 to 1.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The most that the answer may cost one unit.")] = None,
    delta: Annotated[float, typer.Option(help="The same for delta.")] = 0.0,
    alpha: Annotated[float | None, typer.Option(help="Instead of --epsilon: how far off it may be.")] = None,
    max_epsilon: Annotated[float | None, typer.Option(help="With --alpha: the most that it may cost.")] = None,
    beta: Annotated[
        float | None,
        typer.Option(help="With --alpha: the probability that it is farther off (0.05).", show_default=False),
    ] = None,
    quote: Annotated[bool, typer.Option("--quote", help="Only say what it would cost now.")] = False,
    as_json: output.JsonTarget = None,
) -> None:
    """Ask a data set of your own. It costs what it would cost anybody: nothing, if the same question was already
    answered exactly enough.

    Example: thebes dataset query patients --home ./site --statistic count --where "age > 60" --epsilon 0.1

    Example: thebes dataset query patients --home ./site --statistic count --alpha 20 --beta 0.01 --quote
    """
    from thebes.tasks import registry

    if (epsilon is None) == (alpha is None):
        raise Mistake("--epsilon", "is missing: give the price; or give --alpha, how far off the answer may be")
    if epsilon is not None and (max_epsilon, beta) != (None, None):
        raise Mistake("--max-epsilon" if beta is None else "--beta", "goes with --alpha; --epsilon is the price itself")
    asked: dict[str, Any] = {"where": where, "quantile": quantile, "bins": _bins(bins), "epsilon": epsilon}
    asked["by"] = names("--by", by) if by else None
    if column:
        asked |= _of(statistic, names("--column", column))
    if alpha is not None:
        asked |= {"accuracy": {"alpha": alpha, "beta": 0.05 if beta is None else beta}, "max_epsilon": max_epsilon}
    head = {"type": "query", "sites": [SITE], "dataset": name, "statistic": statistic, "delta": delta}
    document = cast("QueryDocument", registry.check({**head, **{k: v for k, v in asked.items() if v is not None}}))
    with ExitStack() as stack:
        question, dataset, read = _question(home, name, stack)
        quotes = {SITE: {**question.quote(document), "filter": dataset.budget.filter}}
        priced, told = _priced(question, document, dataset, quotes)
        if quote:
            _tell(told, as_json)
            return
        _tell_release(_released(question, dataset, priced, quotes), as_json)  # paid for, so before anything else
        try:
            _tell_misfits(document, question, read)
        except (Exception, KeyboardInterrupt):  # whatever it was, the answer stands
            lost = "which of the rows' values did not fit is not known: the second look at them was cut short"
            typer.echo(f"thebes: warning: {lost}; the answer stands", err=True)


def _priced(
    question: StewardQuestion, document: QueryDocument, dataset: DataSet, quotes: dict[str, Any]
) -> tuple[QueryDocument, dict[str, Any]]:
    """The document with its price, and what an answer would cost now. Of an accuracy the price leaves room for the
    noise that the data set's own filter counts least, and for a synopsis, where these have a larger epsilon."""
    from thebes.tasks import registry
    from thebes.tasks.query.accuracy import MOST_EPSILON, priced

    found = priced(document, {SITE: dataset.schema}, quotes)
    if document.accuracy is None:
        return found, question.quote(found)
    payload = {"width": document.accuracy.alpha / found.plan(dataset.schema).step, "beta": document.accuracy.beta}
    most = document.max_epsilon or MOST_EPSILON
    told = question.quote(cast("QueryDocument", registry.check({**found.as_json(), "epsilon": most})), payload)
    if "cost" not in told:
        return found, question.quote(found)
    epsilon = max(found.epsilon, told["cost"][0])
    return cast("QueryDocument", registry.check({**found.as_json(), "epsilon": epsilon})), told


def _released(question: StewardQuestion, dataset: DataSet, document: QueryDocument, quotes: dict[str, Any]) -> Release:
    """From the ask to the release, with this site alone."""
    from thebes.privacy.promise import Unit
    from thebes.privacy.randomness import system
    from thebes.tasks import registry
    from thebes.tasks.protocols import Ask, Setting

    setting = Setting(unit=Unit(dataset.schema.unit), randomness=system(), sites={SITE: dataset.schema}, quotes=quotes)
    aggregator = registry.aggregator(document, setting)
    ask = aggregator.ask(SITE)
    if not isinstance(ask, Ask):
        raise Mistake("NAME", "cannot be asked this")
    own = question.answer(document, ask)
    aggregator.accept(own.contributions)
    aggregator.covers(SITE, own.covers)
    aggregator.paid(SITE, own.cost, own.source)
    aggregator.advance(datetime.now(UTC))
    release = aggregator.release()
    assert release is not None  # noqa: S101
    return release


def _tell_release(release: Release, as_json: str | None) -> None:
    """Tell the answer and what it cost."""
    if as_json is not None:
        try:
            output.write_json(as_json, release.as_json())
        except Mistake:  # it could be written before; the answer is paid for, so it is not lost with the file
            output.write_json("-", release.as_json())
            raise
        return
    typer.echo(str(release))
    cost = release.extra["cost"]
    more = f", delta {figure(cost['delta'])}" if cost["delta"] else ""
    typer.echo(f"It cost epsilon {figure(cost['epsilon'])}{more}. It came from the {release.extra['source']}.")


def _tell_misfits(document: QueryDocument, question: StewardQuestion, read: _Read) -> None:
    """Tell, of the rows that were read for the answer, which values did not fit: on this terminal only. They are exact,
    and no part of an answer that may be handed on. Where nothing was read nothing is known."""
    from thebes.data.filter import read_filter
    from thebes.tasks.fit import fits_of_table

    if not read:
        return
    blocks = sorted({block for asked in read for block in asked})
    table = read.get(tuple(blocks)) or cast("EngineTable | GrownTable", question.opened(blocks))
    where = None if document.where is None else read_filter(document.where, table.schema)
    for fit in fits_of_table(document, table.schema, table.misfits(document.counted, where)):
        nobody = fit.rows and not fit.usable
        told = f"{fit.column} has no usable value, so this says nothing ({fit.causes})" if nobody else fit.told
        if told is not None:
            typer.echo(f"thebes: warning: {told}", err=True)


def _question(home: Path, name: str, stack: ExitStack) -> tuple[StewardQuestion, DataSet, _Read]:
    """The question as it is asked here, the data set, and the tables that are read for it: none before it is."""
    from thebes.data.engines.source import table_of
    from thebes.ledger import Ledger
    from thebes.privacy.randomness import system
    from thebes.site.caches import Caches
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome
    from thebes.site.steward.questions import StewardQuestion
    from thebes.site.streams import stream_of

    place = SiteHome(home)
    dataset = DataSets(place).get(name)
    if dataset is None:
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    ledger = stack.enter_context(Ledger(place.ledger))
    stream = None
    if dataset.blocks is not None:
        stream = stream_of(place, dataset, ledger)
        stack.callback(stream.close)
    caches = Caches(place, streams=None if stream is None else lambda _: stream)
    stack.callback(caches.close)

    read: _Read = {}

    def opened(blocks: Sequence[str]) -> Table:
        table = (
            table_of(dataset.schema, dataset.source, folder=place.datasets, scratch=_scratch(place, stack))
            if stream is None
            else stream.rows(blocks)
        )
        stack.callback(table.close)
        read[tuple(sorted(blocks))] = table
        return table

    return StewardQuestion(dataset, ledger, caches(dataset), stream, opened, system()), dataset, read


def _scratch(place: SiteHome, stack: ExitStack) -> Path:
    """A folder of this command's own: the site's process empties HOME/scratch when it begins."""
    from tempfile import TemporaryDirectory

    return Path(stack.enter_context(TemporaryDirectory(prefix="scratch-", dir=place.folder)))


def _of(statistic: str, columns: list[str]) -> dict[str, Any]:
    """Return the part of a document that says of what a statistic is."""
    if statistic == "correlation":
        return {"columns": columns}
    if len(columns) > 1:
        raise Mistake("--column", f"names {len(columns)} columns; only a correlation is of more than one")
    return {"column": columns[0]}


def _bins(text: str | None) -> int | list[float] | None:
    if text is None:
        return None
    try:
        return int(text) if "," not in text else [float(part) for part in text.split(",")]
    except ValueError:
        raise Mistake("--bins", "must be a number of bins, or numbers to cut at with commas between") from None


def _tell(told: dict[str, Any], as_json: str | None) -> None:
    """Tell what an answer would cost now."""
    body = {"epsilon": told["cost"][0], "delta": told["cost"][1], "source": told["source"]}
    if as_json is not None:
        output.write_json(as_json, body)
        return
    whence = {"cache": "the same was answered well enough", "synopsis": "at most; what was released may say enough"}
    delta = f", delta {figure(body['delta'])}" if body["delta"] else ""
    typer.echo(f"epsilon {figure(body['epsilon'])}{delta}: {whence.get(body['source'], 'noise is drawn for it')}")

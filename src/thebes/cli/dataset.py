"""`thebes dataset`: what a site can be asked about, declared by its steward at the site's home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.dataset_check import check_as_before, check_terms, tell_figures, warn_of_no_key
from thebes.cli.dataset_growth import count, drop, ingest, ledger_of, of_blocks, retire, tell_blocks
from thebes.cli.dataset_policy import contexts_of, grant, revoke
from thebes.cli.dataset_proposal import propose
from thebes.cli.dataset_query import query
from thebes.cli.dataset_savings import forecasts_of, tell_savings
from thebes.cli.dataset_sources import lines_left_out, reached, source_of
from thebes.cli.dataset_synthesis import synthesize
from thebes.cli.help_pages import Commands
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.web.site.savings_words import foreseen

if TYPE_CHECKING:
    from thebes.site.dataset import DataSet

app = typer.Typer(
    help="Declare data sets of a site, and who may ask about them. A coordinator's home means its own site.",
    no_args_is_help=True,
    cls=Commands,
    rich_markup_mode=None,
)


@app.command()
def create(
    name: output.DataSetName,
    home: output.SiteFolder,
    schema: Annotated[Path, typer.Option(help="The schema of the rows: TOML or JSON.")],
    epsilon: Annotated[str, typer.Option(help="The privacy budget: what all answers may cost one unit.")],
    source: Annotated[
        str | None,
        typer.Option(help="Where the rows are: a file, FILE.sqlite#TABLE, a URL#TABLE, or a .toml that describes it."),
    ] = None,
    delta: Annotated[str, typer.Option(help="The same for delta.")] = "0",
    filter: Annotated[
        str | None, typer.Option(help="How costs add up: basic (for delta 0), either (else), zcdp, renyi.")
    ] = None,
    cache: Annotated[
        str, typer.Option(help="How answers are used again: exact, pmw or smart (from a synopsis), none.")
    ] = "exact",
    public: Annotated[
        bool, typer.Option("--public", help="Questions about it may be answered without any noise.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Count on this terminal how many values do not fit the schema.")
    ] = False,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="Go on where more than 1 % of a file's lines cannot be read as rows."),
    ] = False,
    block_by: Annotated[
        str | None,
        typer.Option(help="It grows, in blocks with a budget each: time:1d, user, user:100 or attribute:COLUMN."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="The first day of blocks of time, so that they do not show the earliest row's day: 2026-01-31."
        ),
    ] = None,
    size_share: Annotated[str, typer.Option(help="Share of a block's epsilon that buys its size.")] = "0.05",
    periods: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="With blocks of users: how many counts that share pays for (20)."),
    ] = None,
    retire_below: Annotated[str, typer.Option(help="A block with a smaller share left retires.")] = "0.01",
    separate_by: Annotated[
        str | None,
        typer.Option(
            help="developer: a budget for each developer, over the same rows. A column: blocks for each of its values."
        ),
    ] = None,
    accept_separate_ledgers: Annotated[
        bool,
        typer.Option(
            "--accept-separate-ledgers", help="Accept that developers who pool what they were told may learn more."
        ),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="How waiting pipelines share budget: even, dpf, dpack, fcfs; by default the first to ask gets it."
        ),
    ] = None,
    fair: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000_000, help="With dpf: the part of a block that each claim unlocks; 20 means a 20th."
        ),
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(help="With dpf: after this time a block that was asked for is unlocked whole (30d).")
    ] = None,
) -> None:
    """Declare a data set. Its rows stay where they are and are only ever read; with --block-by it grows by `thebes
    dataset ingest` instead. Nobody may ask about it until a rule allows it.

    Example: thebes dataset create patients --home ./site --schema patients.toml --source patients.csv --epsilon 10

    Example: thebes dataset create taxi --home ./site --schema taxi.toml --block-by time:1d --epsilon 1 --delta 1e-6
    """
    from decimal import Decimal

    from thebes.data.growing.block_rule import TIME
    from thebes.data.growing.block_rule import block_by as blocking
    from thebes.data.schema import read_schema, schema_of
    from thebes.site.dataset import (
        GROWING,
        SCHEDULES,
        BlockDeclaration,
        BudgetDeclaration,
        DataSet,
        DataSets,
        cache_of,
        check_turns,
        path_of,
    )
    from thebes.site.home import SiteHome
    from thebes.site.streams import stream_of

    place = SiteHome(home)
    if path_of(place, name).exists():
        told = f"thebes dataset show {name} says how, and thebes dataset remove {name} takes it away"
        raise Mistake("NAME", f"{name!r} is declared already; {told}")
    declared = schema_of({**read_schema(schema), "public": public})
    budget = BudgetDeclaration.of(epsilon, delta, filter)
    if block_by is not None:
        described = {"kind": GROWING} if source is None else source_of(source)
        if check or described.get("kind") != GROWING:
            raise Mistake(
                "--block-by",
                "is for rows that thebes dataset ingest brings; leave --check out, and leave --source out unless it "
                f'is a .toml with kind = "{GROWING}"',
            )
        if schedule is not None and schedule not in SCHEDULES:
            raise Mistake("--schedule", f"must be one of {', '.join(SCHEDULES)}")
        more: dict[str, Any] = {"size_share": Decimal(size_share), "retire_below": Decimal(retire_below)}
        if separate_by is not None:
            more |= {"separate_by": separate_by, "accept_separate_ledgers": accept_separate_ledgers}
        by = blocking(block_by, declared)
        if since is not None:
            by, more = by.beginning(since), {"since": since, **more}
        asked = {"schedule": schedule, "fair": fair, "lifetime": lifetime}
        turns = {part: value for part, value in asked.items() if value is not None}
        check_turns(turns, "--")
        more |= turns
        if periods is not None:
            more["periods"] = periods
        cut = BlockDeclaration(by, more)
        grown = DataSet(name, declared, described, budget, cut, cache_of({"kind": cache}, declared, budget, cut))
        with ledger_of(place) as ledger:
            check_as_before(name, ledger, grows=True)
            stream_of(place, grown, ledger).close()
        DataSets(place).keep(grown)
        typer.echo(f"The data set {name} grows in blocks by {block_by}; each has epsilon {epsilon} and delta {delta}.")
        typer.echo(_fitting(budget))
        typer.echo(f"A block's size is bought first, with {size_share} of its epsilon: those are fewer by that.")
        if by.kind == TIME and since is None:
            typer.echo(
                "Its first block will be that of the earliest row, which shows; --since DAY declares it instead."
            )
        if assumption := (grown.stream_terms.assumption if grown.stream_terms else ""):
            typer.echo(assumption)
        typer.echo(
            f"thebes dataset ingest {name} FILE --home {home} brings rows. " + _asking(name, place, contexts_of(grown))
        )
        warn_of_no_key(declared)
        return
    if since is not None:
        raise Mistake("--since", "goes with --block-by time:...")
    if separate_by is not None or accept_separate_ledgers:
        raise Mistake("--separate-by", "goes with --block-by: only blocks have budgets that can be separate")
    if periods is not None or (size_share, retire_below) != ("0.05", "0.01"):
        raise Mistake("--size-share", "goes with --block-by, as --periods and --retire-below do")
    if schedule is not None or fair is not None or lifetime is not None:
        raise Mistake(
            "--schedule",
            "goes with --block-by, as --fair and --lifetime do: they are about pipelines that want the same blocks",
        )
    if source is None:
        raise Mistake(
            "--source",
            "is missing: name the file or table with the rows; or give --block-by, for rows that you will bring",
        )
    used = cache_of({"kind": cache}, declared, budget)
    made = DataSet(name, declared, source_of(source), budget, cache=used)
    lost, figures = reached(made, place, check=check, skip_bad_lines=skip_bad_lines)
    if figures is not None:
        tell_figures(figures, declared)
    if lost:
        typer.echo(f"For your eyes only: {lines_left_out(lost)}.")
    with ledger_of(place) as ledger:
        check_terms(made, ledger)
        ledger.open_block(name, **made.terms)
    DataSets(place).keep(made)
    typer.echo(f"The data set {name} is declared in {path_of(place, name)}.")
    typer.echo(_fitting(budget))
    typer.echo(_asking(name, place))
    warn_of_no_key(declared)


@app.command("list")
def list_(home: output.SiteFolder, as_json: output.JsonTarget = None) -> None:
    """List every data set, with what is left of its budget.

    Example: thebes dataset list --home ./site
    """
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome

    place = SiteHome(home)
    found = []
    for name in DataSets(place).names():
        try:
            found.append(_shown(place, name))
        except Mistake as mistake:
            found.append({"name": name, "blocks": [], "trouble": str(mistake)})
    if as_json is not None:
        output.write_json(as_json, found)
        return
    for one in found:
        left = of_blocks(one) if "growing" in one else ", ".join(_left(block) for block in one["blocks"])
        typer.echo(f"{one['name']}: {one['trouble'] or left}")
    if not found:
        typer.echo(f"There is no data set in {place.datasets}.")


@app.command()
def show(
    name: output.DataSetName,
    home: output.SiteFolder,
    forecast: Annotated[
        bool,
        typer.Option(
            "--forecast", help="Also tell when a synopsis would start to save budget, judging by the questions so far."
        ),
    ] = False,
    as_json: output.JsonTarget = None,
) -> None:
    """Show a data set: its schema, its budget, what is left of it, and what its cache saved. How many rows it has is
    never shown.

    Example: thebes dataset show patients --home ./site --json
    """
    from thebes.data.schema import size_of
    from thebes.site.home import SiteHome

    found = _shown(SiteHome(home), name)
    if forecast:
        found["forecast"] = forecasts_of(SiteHome(home), name)
    if as_json is not None:
        output.write_json(as_json, found)
        return
    typer.echo(f"{name}: {found['source']}{', public' if found['public'] else ''}")
    if found["trouble"]:
        typer.echo(f"It cannot be asked about: {found['trouble']}")
    if "growing" in found and not found["trouble"]:
        tell_blocks(found)
    for block in found["blocks"] if "growing" not in found else []:
        typer.echo(f"Hidden: one {block['unit']}. {_left(block)}.")
    if found["schema"]["unit"] == "person" and not any(c.get("key") for c in found["schema"]["columns"].values()):
        typer.echo("No column is the key, so each row counts as a person of its own.")
    tell_savings(found["cache"])
    if forecast:
        for sentence in foreseen(found["forecast"]):
            typer.echo(sentence)
    for column, told in found["schema"]["columns"].items():
        bounds = f" from {figure(told['low'])} to {figure(told['high'])}" if "low" in told else ""
        bounds += f", {size}" if (size := size_of(told)) else ""
        values = f", {len(told['values'])} values" if "values" in told else ""
        typer.echo(f"  {column}: {told['type']}{bounds}{values}{', key (never shown)' if told.get('key') else ''}")


for each in (propose, query, ingest, count, retire, drop, grant, revoke):
    app.command()(each)


@app.command()
def remove(name: output.DataSetName, home: output.SiteFolder) -> None:
    """Remove a data set. Its rows stay where they are, and what was spent on it stays spent: if you declare it again,
    its budget goes on from there.

    Example: thebes dataset remove patients --home ./site
    """
    from thebes.site.dataset import path_of
    from thebes.site.home import SiteHome

    path = path_of(SiteHome(home), name)
    if not path.exists():
        raise Mistake("NAME", f"there is no data set {name!r} in {path.parent}")
    path.unlink()
    typer.echo(f"The data set {name} is no longer declared; its budget in the ledger stays as it is.")


app.command()(synthesize)


def _shown(place: Any, name: str) -> dict[str, Any]:
    from thebes.site.caches import Caches
    from thebes.site.dataset import DataSets
    from thebes.site.steward import views
    from thebes.site.streams import stream_of

    dataset = DataSets(place).get(name)
    if dataset is None:
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    with ledger_of(place) as ledger:
        opened: list[Any] = []

        def streams(one: DataSet) -> Any:
            opened.append(stream_of(place, one, ledger))
            return opened[-1]

        caches = Caches(place, streams=streams)
        try:
            found = views.shown(dataset, ledger, streams, caches.known)
            if ledger.frozen:
                thaw = f"after a restore until `thebes ledger thaw --home {place.folder}`"
                found["trouble"] = f"the site's ledger is frozen, as it is {thaw}"
            return {"name": name, **found}
        finally:
            caches.close()
            for stream in opened:
                stream.close()


def _fitting(budget: Any) -> str:
    """Say how many answers with Laplace noise a whole budget pays, if all cost the same and nothing else is bought."""
    counted = ", ".join(f"{count:,} of epsilon {each:f}" for each, count in budget.answers.items())
    return f"The budget pays for so many answers with Laplace noise (filter {budget.filter}): {counted}."


def _asking(name: str, place: Any, contexts: tuple[str, ...] = ()) -> str:
    """Say who may ask about a data set that is just declared, and how somebody may."""
    from thebes.site.budget.policy import ANY
    from thebes.site.budget.policy_file import PolicyFile

    policy = PolicyFile(place.policy)()
    rules = [rule for rule in policy.rules if name in rule.datasets or ANY in rule.datasets]
    told = f"thebes dataset grant {name} --home {place.folder} --to NAME --kinds query --epsilon E" + (
        f" --contexts {contexts[0]}" if contexts else ""
    )
    if policy.trouble is not None and place.policy.exists():
        return f"Nobody may ask about it yet: {policy.trouble}"
    if not rules:
        return f"Nobody may ask about it yet: {told}"
    who = sorted({"everybody" if each == ANY else each for rule in rules for each in rule.requestors})
    return f"By policy.toml {', '.join(who)} may ask about it already."


def _left(block: dict[str, Any]) -> str:
    return f"{block['account'][:1].upper()}{block['account'][1:]}"

"""`python -m papers`: tables and figures of the papers, run again and shown beside what was printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.help_pages import Commands
from thebes.cli.main import run
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

app = typer.Typer(
    help="Run the papers' tables and figures again, beside what was printed.",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Home = Annotated[
    Path, typer.Option("--home", envvar="THEBES_HOME", help="Where outcomes are kept, in a folder of their own.")
]
HOME = Path("thebes-experiments")


@app.command("list")
def list_(json: str | None = output.json_option()) -> None:
    """List every table and figure that can be run again.

    Example: python -m papers list
    """
    from rich.table import Table

    from papers.registry import experiments

    known = list(experiments().values())
    if json is not None:
        told = [{"name": e.name, "paper": e.paper, "place": e.place, "shows": e.shows} for e in known]
        output.write_json(json, told)
        return
    table = Table("name", "from", "what it shows")
    for one in known:
        table.add_row(one.name, f"{one.paper}, {one.place}", one.shows)
    _print(table)


@app.command("run")
def run_again(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Which (or all): see python -m papers list.")],
    quick: bool = typer.Option(False, "--quick", help="Fewer seeds and settings: within half a minute each."),
    home: _Home = HOME,
    json: str | None = output.json_option(),
) -> None:
    """Run tables or figures again, print what came out and keep it for the report.

    Example: python -m papers run anonml-2 --quick
    """
    from papers.results import Results

    results, told = Results(home), []
    for one in _chosen(names):
        with _working(one.name):
            outcome = one.run(quick=quick)
        results.keep(outcome)
        told.append(outcome.as_json())
        if json is None:
            _show(outcome)
    if json is not None:
        output.write_json(json, told[0] if len(names) == 1 and names != ["all"] else told)


@app.command("check")
def check(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Which (or all that are kept on both sides).")],
    quick: bool = typer.Option(False, "--quick", help="Compare quick runs."),
    against: Annotated[
        Path | None, typer.Option(help="Where the earlier outcomes are kept (default: the repository's docs).")
    ] = None,
    home: Annotated[
        Path | None, typer.Option("--home", help="Take the new outcomes that are kept here, and run nothing.")
    ] = None,
    same_draws: bool = typer.Option(
        False, "--same-draws", help="Nothing that draws was changed: equal seeds must give nearly equal numbers."
    ),
    json: str | None = output.json_option(),
) -> None:
    """Run again what was kept and say what fell behind it by more than seeds differ. Nothing is kept.

    Exit status 1: something fell. Example: python -m papers check anonml-2 --quick
    """
    from dataclasses import asdict

    from papers.comparing import ODDS, compare
    from papers.results import Results, published

    place = published() if against is None else against
    earlier = Results(place).kept(quick=quick)
    if not earlier:
        raise Mistake("--against", f"{str(place)!r} holds no {'quick' if quick else 'whole'} outcome to compare with")
    kept = None if home is None else Results(home).kept(quick=quick)
    both = earlier.keys() if kept is None else earlier.keys() & kept.keys()
    chosen = [one for one in _chosen(names) if names != ["all"] or one.name in both]
    for one in chosen:
        if one.name not in earlier:
            raise Mistake("NAME", f"no earlier {'quick' if quick else 'whole'} outcome of {one.name!r} is kept")
    pairs = []
    for one in chosen:
        if kept is not None and one.name not in kept:
            raise Mistake("--home", f"holds no {'quick' if quick else 'whole'} outcome of {one.name!r}")
        with _working(one.name):
            pairs.append((one, earlier[one.name], one.run(quick=quick) if kept is None else kept[one.name]))
    found = compare(pairs, same_draws=same_draws)
    fell = [fall for comparison in found for fall in comparison.fell]
    if json is not None:
        output.write_json(json, {"ok": not fell, "odds": ODDS, "compared": [asdict(one) for one in found]})
    else:
        _tell(found)
    if not any(one.rows for one in found):
        raise Mistake("NAME", "nothing could be compared")
    if fell:
        raise typer.Exit(1)


@app.command("fetch")
def fetch_(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="Which data sets (default: all but large ones).")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", envvar="THEBES_DATA", help="Where data lie that experiments read.")
    ] = None,
    lying: Annotated[
        Path | None, typer.Option("--from", help="A folder in which you have the files already: no network is used.")
    ] = None,
    json: str | None = output.json_option(),
) -> None:
    """Fetch published data from public places into the folder that experiments read.

    Only what has the published SHA-256 is kept. Example: python -m papers fetch adult --data data
    """
    from papers.datasets import data_folder
    from papers.fetching import fetch
    from papers.places import files_of, large

    folder, told = data or data_folder(), []
    for one in files_of(names or []):
        if one.by_hand and not names and lying is None:
            told.append({"file": one.name, "fetched": False, "licence": one.place.licence, "by_hand": one.by_hand})
            if json is None:
                typer.echo(f"{folder / one.name} is not fetched. {one.by_hand}.")
            continue
        with _working(one.name):
            came = fetch(one, folder, lying=lying)
        told.append({"file": one.name, "fetched": came, "licence": one.place.licence})
        if json is None:
            typer.echo(f"{folder / one.name} {'fetched' if came else 'is there'}. Licence: {one.place.licence}.")
    if json is not None:
        output.write_json(json, told)
    elif not names:
        typer.echo(f"Large, and fetched by name only: {', '.join(large())}.")


@app.command("report")
def report(
    home: _Home = HOME,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes (default: the folder report in the home).")
    ] = None,
) -> None:
    """Write one page with plots of every outcome that is kept. Nothing is run.

    Example: python -m papers report --home thebes-experiments
    """
    from papers.page import page
    from papers.registry import experiments
    from papers.results import Results

    kept = Results(home).kept()
    if not kept:
        raise Mistake("--home", "holds no outcome: python -m papers run all --quick makes some")
    known = list(experiments())
    ordered = sorted(kept.values(), key=lambda o: known.index(o.name) if o.name in known else len(known))
    folder = home / "report" if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(page(ordered), encoding="utf-8")
    typer.echo(str(path))


def _chosen(names: list[str]) -> list[Any]:
    from papers.registry import experiment, experiments

    return list(experiments().values()) if names == ["all"] else [experiment(name) for name in names]


# --- for the eyes -------------------------------------------------------------------------------------------


def _show(outcome: Any) -> None:
    from rich.table import Table

    table = Table(title=f"{outcome.paper}, {outcome.place}: {outcome.measure}", title_justify="left")
    shown = outcome.table()
    for name in shown:
        table.add_column("" if name in ("panel", "series") else name, justify="left" if name == "series" else "right")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
    _print(table)
    typer.echo(outcome.shows)
    typer.echo(f"Data: {outcome.data}{' (made up: they only stand in)' if outcome.made_up else ''}.")
    pays = any(row.epsilon is not None for row in outcome.rows)
    typer.echo(f"Epsilon is what one {outcome.unit} pays in all." if pays else "Nothing here is private.")
    typer.echo(f"{len(outcome.seeds)} {'seed' if len(outcome.seeds) == 1 else 'seeds'}, {figure(outcome.seconds)} s.")
    for note in outcome.notes:
        typer.echo(f"- {note}")


def _tell(found: Sequence[Any]) -> None:
    from rich.table import Table

    from papers.comparing import ODDS

    table = Table("compared", "rows", "of single seeds", "notices from", "fell")
    for one in found:
        cells = (str(one.rows), str(one.blind), f"{100 * one.notices:.1f} %", str(len(one.fell)))
        table.add_row(one.name, *(cells if not one.why_not else ("", "", "", f"not compared: {one.why_not}")))
    _print(table)
    if not any(one.rows for one in found):
        return
    fell = [fall for one in found for fall in one.fell]
    if fell:
        table = Table("fell", "", "", "better is", "then", "now", "may differ by", title_justify="left")
        for fall in fell:
            now = "gone" if fall.now is None else figure(fall.now, 4)
            where = (fall.name, fall.panel, fall.series if fall.at is None else f"{fall.series}: {fall.at}")
            table.add_row(*where, fall.better, figure(fall.before, 4), now, figure(fall.allowed, 2))
        _print(table)
    said = f"{len(fell)} {'row' if len(fell) == 1 else 'rows'} fell." if fell else "Nothing fell."
    typer.echo(f"{said} Where nothing but the draws changes, a check says that something fell once in {1 / ODDS:,.0f}")
    typer.echo("times; for single seeds no odds can be stated.")


def _print(table: Any) -> None:
    import sys

    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _working(name: str) -> Any:
    """A sign of life on a terminal, nothing elsewhere."""
    from contextlib import nullcontext

    from rich.console import Console

    console = Console(stderr=True)
    return console.status(f"{name} ...") if console.is_terminal else nullcontext()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; it ends and complains as those of `thebes` do."""
    run(app, "papers", arguments)

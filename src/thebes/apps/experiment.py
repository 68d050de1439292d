"""`thebes experiment`: tables and figures of the papers, run again and shown beside what was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.apps import output
from thebes.apps.helping import Commands
from thebes.privacy.faults import Mistake

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

    Example: thebes experiment list
    """
    from rich.table import Table

    from thebes.experiments.registry import experiments

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
def run_(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Which (or all): see thebes experiment list.")],
    quick: bool = typer.Option(False, "--quick", help="Fewer seeds and settings: within half a minute each."),
    home: _Home = HOME,
    json: str | None = output.json_option(),
) -> None:
    """Run tables or figures again, print what came out and keep it for the report.

    Example: thebes experiment run anonml-2 --quick
    """
    from thebes.experiments.registry import experiment, experiments
    from thebes.experiments.results import Results

    chosen = list(experiments().values()) if names == ["all"] else [experiment(name) for name in names]
    results, told = Results(home), []
    for one in chosen:
        with _working(one.name):
            outcome = one.run(quick=quick)
        results.keep(outcome)
        told.append(outcome.as_json())
        if json is None:
            _show(outcome)
    if json is not None:
        output.write_json(json, told[0] if len(names) == 1 and names != ["all"] else told)


@app.command("report")
def report(
    home: _Home = HOME,
    out: Annotated[
        Path | None, typer.Option(help="Where the page goes (default: the folder report in the home).")
    ] = None,
) -> None:
    """Write one page with plots of every outcome that is kept. Nothing is run.

    Example: thebes experiment report --home thebes-experiments
    """
    from thebes.apps.pages.experiments import page
    from thebes.experiments.registry import experiments
    from thebes.experiments.results import Results

    kept = Results(home).kept()
    if not kept:
        raise Mistake("--home", "holds no outcome: thebes experiment run all --quick makes some")
    known = list(experiments())
    ordered = sorted(kept.values(), key=lambda o: known.index(o.name) if o.name in known else len(known))
    folder = home / "report" if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    path.write_text(page(ordered), encoding="utf-8")
    typer.echo(str(path))


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
    typer.echo(f"{len(outcome.seeds)} {'seed' if len(outcome.seeds) == 1 else 'seeds'}, {outcome.seconds:g} s.")
    for note in outcome.notes:
        typer.echo(f"- {note}")


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

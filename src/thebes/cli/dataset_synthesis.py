"""`thebes dataset synthesize`: rows that are nobody's, learned from a data set within its budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.names import names
from thebes.privacy.faults import Mistake

_SUFFIXES = (".csv", ".parquet")
_MEMORY = "512MB"  #: more than a site's question has: hundreds of columns are read at once, by nobody else meanwhile


def synthesize(
    name: output.DataSetName,
    home: output.SiteFolder,
    rows: Annotated[int, typer.Option(help="How many to make; not necessarily as many as there are in the data set.")],
    epsilon: Annotated[str, typer.Option(help="Epsilon that they cost one unit.")],
    out: Annotated[Path, typer.Option(help="A file that is not there yet: .csv or .parquet.")],
    delta: Annotated[str, typer.Option(help="The same for delta; with one the same epsilon tells more.")] = "0",
    method: Annotated[
        str,
        typer.Option(
            help="mst (columns in a tree of pairs), independent (each by itself), aim (with the extra synth)."
        ),
    ] = "mst",
    columns: Annotated[
        list[str] | None, typer.Option(help="Some columns, with commas between; else all with values or bounds.")
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(help="Into how many parts a range is cut: age=9, or where: age=18,40,65. By default into 10."),
    ] = None,
    complete: Annotated[
        bool, typer.Option("--complete", help="Rows that lack a value are neither learned from nor made.")
    ] = False,
    as_json: output.JsonTarget = None,
) -> None:
    """Make synthetic rows of a data set, paid from its budget; their certificate is written beside them. More rows cost
    no more, but every run is paid for anew: ask for enough of them at once.

    Example: thebes dataset synthesize patients --home ./site --rows 1000 --epsilon 1 --out patients.csv
    """
    from thebes.data.engines.source import table_of
    from thebes.ledger import Ledger
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome
    from thebes.site.steward.synthesis import Wish, as_frame, synthesized
    from thebes.site.streams import stream_of

    place = SiteHome(home)
    dataset = DataSets(place).get(name)
    if dataset is None:
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    certificate = out.with_suffix(out.suffix + ".certificate.json")
    _writable(out, certificate)
    wish = Wish(
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        method=method,
        columns=names("--columns", columns) if columns else None,
        bins=_bins(bins or []),
        complete=complete,
    )

    def opened() -> Any:
        scratch = place.folder / "scratch"
        return table_of(dataset.schema, dataset.source, folder=place.datasets, scratch=scratch, memory=_MEMORY)

    with Ledger(place.ledger) as ledger:
        stream = None if dataset.blocks is None else stream_of(place, dataset, ledger)
        try:
            made = synthesized(dataset, wish, ledger=ledger, opened=opened, stream=stream, told=output.paced())
        finally:
            if stream is not None:
                stream.close()
    told = made.certificate.as_json()
    certificate.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")  # first: rows never lie without it
    _write(as_frame(made.columns, dataset), out)
    if as_json is not None:
        output.write_json(as_json, {"rows": rows, "file": str(out), "certificate": told})
        return
    typer.echo(f"{rows} synthetic rows of {name} are in {out}, their certificate in {certificate.name}.")
    typer.echo(made.certificate.text)


def _writable(*files: Path) -> None:
    """Refuse before anything is paid what could not be written afterwards."""
    for path in files:
        if path.exists():
            raise Mistake("--out", f"{path} is there already; rows are made once, and are not written over others")
        if not path.parent.is_dir():
            raise Mistake("--out", f"there is no folder {path.parent}")
        output.check_writable("--out", path)
    if files[0].suffix not in _SUFFIXES:
        raise Mistake("--out", f"must end in {' or '.join(_SUFFIXES)}")


def _bins(told: list[str]) -> dict[str, int | tuple[float, ...]]:
    found: dict[str, int | tuple[float, ...]] = {}
    for each in told:
        column, _, cut = each.partition("=")
        try:
            places = tuple(float(place) for place in cut.split(","))
        except ValueError:
            raise Mistake("--bins", f"{each[:80]!r} must be COLUMN=NUMBER or COLUMN=PLACE,PLACE,...") from None
        whole = len(places) == 1 and places[0] == int(places[0])
        found[column.strip()] = int(places[0]) if whole else places
    return found


def _write(frame: Any, out: Path) -> None:
    """A file whole or not at all."""
    fresh = out.with_name(f".{out.name}.new")
    if out.suffix == ".csv":
        frame.to_csv(fresh, index=False)
    else:
        import duckdb

        with duckdb.connect() as database:
            database.from_df(frame).write_parquet(str(fresh))
    fresh.replace(out)

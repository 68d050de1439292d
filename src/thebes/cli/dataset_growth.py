"""`thebes dataset ingest`, `count`, `retire` and `drop`: a data set that grows, in blocks with a budget each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure, percent

if TYPE_CHECKING:
    from thebes.curator.streams.stream import Stream
    from thebes.ledger import Ledger

_Blocks = Annotated[list[str], typer.Argument(help="The blocks, as `show` names them.")]
_MOST_SHOWN = 40  #: blocks on a terminal


def ingest(
    name: output.DataSetName,
    file: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow.")],
    home: output.SiteFolder,
    key: Annotated[
        str | None,
        typer.Option(help="A name for this batch; the same name again changes nothing. By default the file's name."),
    ] = None,
    as_json: output.JsonTarget = None,
) -> None:
    """Bring rows into a data set that grows: all of the file, or nothing if anything in it is wrong.

    Example: thebes dataset ingest taxi rides-2026-11-20.parquet --home ./site
    """
    with _stream(home, name) as stream:
        came = stream.ingest(file, key=key or file.name)
    if as_json is not None:
        output.write_json(as_json, {"rows": came.rows, "again": came.again, "left_out": list(came.left_out)})
        return
    if came.again:
        typer.echo(f"These {came.rows} rows are there already, by the name {key or file.name!r}; nothing changed.")
        return
    typer.echo(f"For your eyes only: {came.rows} rows came in.")
    if came.left_out:
        typer.echo(f"Left out, because the schema does not declare them: {', '.join(came.left_out)}")


def count(
    name: output.DataSetName,
    home: output.SiteFolder,
    period: Annotated[str, typer.Option(help="A name for this count: the same name again costs nothing.")],
) -> None:
    """Privately count the users of a data set that has blocks of users. From then on blocks up to that many are
    offered.

    Example: thebes dataset count visits --home ./site --period 2026-11
    """
    with _stream(home, name) as stream:
        counted = stream.count_users(period)
        offered = len(stream.blocks())
    typer.echo(f"About {counted.users} users with {counted.rows} rows in {period}; {offered} blocks are offered.")


def retire(name: output.DataSetName, blocks: _Blocks, home: output.SiteFolder) -> None:
    """Retire blocks of a data set that grows: they take no more charges, for good. Spent blocks retire by themselves.

    Example: thebes dataset retire taxi taxi/2026-11-20 --home ./site
    """
    with _stream(home, name) as stream:
        gone = stream.retire(_full(name, blocks))
    typer.echo(f"Retired: {', '.join(gone) or 'nothing; they were retired before'}.")


def drop(name: output.DataSetName, blocks: _Blocks, home: output.SiteFolder) -> None:
    """Delete the rows of retired blocks. What was learned from them stays, and so does what was spent.

    Example: thebes dataset drop taxi taxi/2026-11-20 --home ./site
    """
    with _stream(home, name) as stream:
        stream.drop(_full(name, blocks))
    typer.echo(f"The rows of {', '.join(_full(name, blocks))} are deleted.")


def of_blocks(found: dict[str, Any]) -> str:
    """All blocks in one line."""
    blocks = found["blocks"]
    alive = [block["left"] for block in blocks if block["state"] in ("open", "sealed")]
    if not alive:
        return f"{len(blocks)} blocks by {found['growing']['by']}, none of which can be charged"
    spent = 1 - sum(alive) / len(alive)
    gone = f"{percent(spent)} is spent or set aside" if spent > 0 else "nothing is spent"
    return f"{len(blocks)} blocks by {found['growing']['by']}; of {len(alive)} that can be charged {gone}"


def tell_blocks(found: dict[str, Any]) -> None:
    blocks = found["blocks"]
    typer.echo(f"Hidden: one {found['schema']['unit']}. {of_blocks(found)}.")
    typer.echo(found["growing"]["assumption"])
    if counts := found["growing"].get("counts"):
        typer.echo(
            f"Each of {counts['periods']} counts of its users will lie within {counts['users']:,.0f} of the truth, one "
            f"of their rows within {counts['rows']:,.0f}, 19 times of 20; fewer counts or a larger share are closer."
        )
    if paid := found["growing"]["sizes"]["epsilon"]:
        typer.echo(f"The sizes below, and all counts so far, cost whoever is in a block epsilon {figure(paid)}.")
    for block in blocks[-_MOST_SHOWN:]:
        size = "" if block["size"] is None else f", about {block['size']} rows"
        typer.echo(f"  {block['block']}: {block['state']}{size}; {block['account']}")
    if len(blocks) > _MOST_SHOWN:
        typer.echo(f"  and {len(blocks) - _MOST_SHOWN} before these; --json lists all of them")


@contextmanager
def _stream(home: Path, name: str) -> Iterator[Stream]:
    """A data set that grows."""
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome
    from thebes.site.streams import stream_of

    place = SiteHome(home)
    dataset = DataSets(place).get(name)
    if dataset is None:
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    with ledger_of(place) as ledger:
        stream = stream_of(place, dataset, ledger)
        try:
            yield stream
        finally:
            stream.close()


def _full(name: str, blocks: list[str]) -> list[str]:
    return [block if block.startswith(f"{name}/") else f"{name}/{block}" for block in blocks]


def ledger_of(place: Any) -> Ledger:
    """A home's ledger, which only its owner may read."""
    from thebes.ledger import Ledger

    made = Ledger(place.ledger)
    Path(place.ledger.removeprefix("sqlite:///")).chmod(0o600)
    return made

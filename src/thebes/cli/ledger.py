"""`thebes ledger`: what a person sees of any ledger, and what its owner does with it."""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure, plural

if TYPE_CHECKING:
    from thebes.ledger import Block, Ledger

app = typer.Typer(
    help="Show a ledger, check that nothing in it was changed, freeze it, or let a restored one spend again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Where = Annotated[
    str | None, typer.Argument(metavar="URL", help="sqlite:///FILE or postgresql://..., instead of --home.")
]
_Home = Annotated[Path | None, typer.Option(help="A home (or THEBES_HOME): its ledger is the file ledger.db in it.")]
_Json = Annotated[str | None, typer.Option("--json", metavar="[FILE]", help="JSON, to FILE or standard output.")]
#: why the ledger of a home that moved is not simply thawed
_MOVED = (
    "is needed: this home moved to another device, and its copy may spend there. Two homes that do not know of each "
    "other reveal more than your limits allow. Destroy this one (thebes person --destroy), or give --stay if the copy "
    "was never restored and you have deleted it"
)
_Head = Annotated[str | None, typer.Option(help="A head that `show` printed before, as LENGTH:HASH.")]


@app.command()
def show(
    where: _Where = None,
    home: _Home = None,
    every: Annotated[bool, typer.Option("--all", help="Retired blocks too.")] = False,
    as_json: _Json = None,
) -> None:
    """Show blocks, what is spent and left of each, who used them for what, and the head of the journal. JSON has all
    blocks.

    Example: thebes ledger show sqlite:///budget.db
    """
    where, as_json = _untangled(where, as_json)
    with _opened(where, home) as ledger:
        picture = _picture(ledger)
    if as_json is None:
        _print(picture, every=every)
    else:
        output.write_json(as_json, picture)


@app.command()
def verify(where: _Where = None, home: _Home = None, head: _Head = None, as_json: _Json = None) -> None:
    """Check every journal entry, every balance against a replay, and every head remembered outside.

    Exit status 1: something was changed. Example: thebes ledger verify --home . --head 31:5f0c...
    """
    from thebes.ledger import Head, Tampered

    where, as_json = _untangled(where, as_json)
    known = [] if head is None else [Head.read(head)]
    with _opened(where, home) as ledger:
        findings: tuple[str, ...] = ()
        try:
            ledger.verify(*known)
        except Tampered as tampered:
            findings = tampered.findings
        found, kept = ledger.head(), ledger.kept_head()
    if as_json is not None:
        report = {"ok": not findings, "head": str(found), "kept": kept and str(kept), "findings": list(findings)}
        output.write_json(as_json, report)
    if findings:
        typer.echo("thebes: the ledger was changed by something other than Thebes:", err=True)
        for finding in findings:
            typer.echo(f"  {finding}", err=True)
        raise typer.Exit(1)
    if as_json is None:
        typer.echo(f"Nothing was changed: {found.length} entries fit together and give the balances.")
        typer.echo(f"Head {found}")
        if kept is None and not known:
            typer.echo("No head is remembered outside this ledger: compare with one you wrote down (--head).")


@app.command()
def freeze(where: _Where = None, home: _Home = None, as_json: _Json = None) -> None:
    """Let nothing be spent until `thaw`. This is for a ledger that came back by other means than `thebes restore`, such
    as pg_restore or a snapshot of a disk. It may have forgotten what was spent since that copy. A site with such a
    ledger only repeats what it already said of open tasks, and pays anew for what it was buying at that moment.

    Example: thebes ledger freeze postgresql:///thebes
    """
    from thebes.cli.homes.settlement import settle

    where, as_json = _untangled(where, as_json)
    with _opened(where, home) as ledger:
        before = ledger.frozen
        if not before:  # what froze it already says more
            ledger.freeze("frozen by its owner")
    if (folder := _folder(where, home)) is not None:
        settle(folder)
    if as_json is not None:
        output.write_json(as_json, {"was_frozen": before, "frozen": True})
    else:
        typer.echo("The ledger was frozen already." if before else "Nothing is spent until `thebes ledger thaw`.")


@app.command()
def thaw(
    where: _Where = None,
    home: _Home = None,
    stay: Annotated[
        bool, typer.Option("--stay", help="Also where this home moved, and its copy never came back.")
    ] = False,
    as_json: _Json = None,
) -> None:
    """Let a restored ledger spend again. Claims that were open in the copy count as consumed whole. A site with such a
    ledger only repeats what it already said of open tasks, and pays anew for what it was buying at that moment.

    Example: thebes ledger thaw --home .
    """
    from thebes.cli.homes.settlement import settle

    where, as_json = _untangled(where, as_json)
    with _opened(where, home) as ledger:
        frozen = ledger.frozen
        if ledger.moved and not stay:
            raise Mistake("--stay", _MOVED)
        if frozen and (folder := _folder(where, home)) is not None:
            settle(folder)  # first: whoever is killed in between thaws again
        settled = ledger.thaw()
    if as_json is not None:
        output.write_json(as_json, {"was_frozen": frozen, "frozen": False, "settled": settled})
    elif frozen:
        typer.echo(f"The ledger spends again. Claims that were open and now count as consumed: {len(settled)}.")
    else:
        typer.echo("The ledger was not frozen; nothing was changed.")


def _untangled(where: str | None, as_json: str | None) -> tuple[str | None, str | None]:
    """`show --json URL`: an address after a bare --json is the ledger, not a file to write."""
    if where is None and as_json is not None and "://" in as_json:
        return as_json, "-"
    return where, output.json_target(as_json)


def _folder(where: str | None, home: Path | None) -> Path | None:
    """The home that a ledger belongs to, where it lies in one."""
    if where is None:
        return home or Path(os.environ.get("THEBES_HOME", "."))
    file = Path(where.removeprefix("sqlite:///"))
    return file.parent if where.startswith("sqlite:///") and file.name == "ledger.db" else None


def _opened(where: str | None, home: Path | None) -> Ledger:
    if where is not None and home is not None:
        raise Mistake("ledger", "give an address or --home, not both")
    if where is None:
        home = home or (Path(os.environ["THEBES_HOME"]) if os.environ.get("THEBES_HOME") else None)
        if home is None:
            raise Mistake("ledger", "give an address such as sqlite:///budget.db, or --home DIR")
        if not (home / "ledger.db").is_file():
            raise Mistake(
                "home",
                f"there is no ledger in {home} (no file ledger.db); a coordinator has one with a site `local` only",
            )
        where = f"sqlite:///{home / 'ledger.db'}"
    if "://" not in where and Path(where).exists():
        place = Path(where)
        meant = f"--home {where}" if place.is_dir() else f"sqlite:///{where}"
        raise Mistake("ledger", f"{where!r} is a {'folder' if place.is_dir() else 'file'}; write {meant}")
    if where == "memory://":
        raise Mistake("ledger", "a ledger in memory cannot be seen from outside its process")
    from thebes.ledger import Ledger

    return Ledger(where, create=False)


def _picture(ledger: Ledger) -> dict[str, Any]:
    kept = ledger.kept_head()
    return {
        "ledger": ledger.id,
        "place": ledger.place,
        "head": str(ledger.head()),
        "kept": kept and str(kept),
        "frozen": ledger.frozen,
        "moved": ledger.moved,
        "blocks": [_block(block) for block in ledger.blocks()],
        "caps": [
            {
                "spender": cap.spender,
                "block": cap.block,
                "epsilon": float(cap.epsilon),
                "delta": None if cap.delta is None else float(cap.delta),
            }
            for cap in ledger.caps()
        ],
        "uses": [
            {
                "spender": use.spender,
                "purpose": use.purpose,
                "claims": use.claims,
                "open": use.open,
                "blocks": use.blocks,
                "most": use.most,
            }
            for use in ledger.uses()
        ],
    }


def _block(block: Block) -> dict[str, Any]:
    meters = {}
    for place, meter in block.meters.items():
        step = Decimal("1e-18") if place == "delta" else Decimal("1e-12")
        counts = {"capacity": meter.capacity or 0, "spent": meter.spent, "reserved": meter.reserved}
        meters[place] = {name: float(count * step) for name, count in counts.items()}
    return {
        "block": block.name,
        "unit": str(block.unit),
        "adjacency": str(block.adjacency),
        "filter": block.filter,
        **block.budget.as_json(),
        "remaining": block.remaining.as_json(),
        "left": block.left,
        "account": block.account,
        "state": str(block.state),
        "meters": meters,
    }


def _print(picture: dict[str, Any], *, every: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from thebes.ledger.block_name import base_name
    from thebes.ledger.filters import firm
    from thebes.ledger.states import BlockState

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(Text(f"Ledger {picture['place']}"))
    if picture["frozen"]:
        moved = "it moved to another device, and lives there; destroy this home"
        why = (
            moved
            if picture["moved"]
            else "until `thebes ledger thaw`, for it came back from a copy or was frozen by hand"
        )
        sentence = f"FROZEN, all counts as spent: {why}"
        console.print(Text(sentence, style="bold red"))
    blocks = Table(title="Blocks", title_justify="left")
    for name in ("block", "protects", "filter", "capacity", "spent", "reserved", "remaining", "state"):
        blocks.add_column(name, overflow="fold")
    retired = set() if every else {b["block"] for b in picture["blocks"] if b["state"] == BlockState.RETIRED}
    for block in picture["blocks"]:
        if block["block"] in retired:
            continue
        protects = f"one {block['unit']}, {block['adjacency']}"
        places = _shown(block["meters"], firm(block["filter"]))
        counts = [
            "\n".join(f"{place} {figure(values[c])}" for place, values in places)
            for c in ("capacity", "spent", "reserved")
        ]
        left = f"epsilon {figure(block['remaining']['epsilon'])}\ndelta {figure(block['remaining']['delta'])}"
        blocks.add_row(
            *map(
                Text,
                (
                    block["block"] if every else base_name(block["block"]),
                    protects,
                    block["filter"],
                    *counts,
                    left,
                    block["state"],
                ),
            )
        )
    console.print(blocks)
    if retired:
        console.print(Text(f"{plural(len(retired), 'block')} that can pay for nothing more: --all"))
    if picture["caps"]:
        caps = Table(title="Caps", title_justify="left")
        for name in ("spender", "block", "epsilon", "delta"):
            caps.add_column(name, overflow="fold")
        for cap in (cap for cap in picture["caps"] if cap["block"] not in retired):
            delta = "the block's" if cap["delta"] is None else f"{figure(cap['delta'])}"
            caps.add_row(
                *map(
                    Text,
                    (
                        cap["spender"],
                        (cap["block"] or "each") if every else base_name(cap["block"] or "each"),
                        f"{figure(cap['epsilon'])}",
                        delta,
                    ),
                )
            )
        console.print(caps)
    uses = Table(title="Claims", title_justify="left")
    for name in ("spender", "purpose", "claims", "still open", "blocks", "most of one block"):
        uses.add_column(name, overflow="fold")
    for use in picture["uses"]:
        counted = (str(use["claims"]), str(use["open"]), str(use["blocks"]), f"{use['most']:.1%}")
        uses.add_row(*map(Text, (use["spender"], use["purpose"], *counted)))
    console.print(uses)
    console.print(Text(f"Head {picture['head']}"))
    remembered = "the keyring remembers it" if picture["kept"] == picture["head"] else "write it down"
    console.print(Text(f"({remembered}; `thebes ledger verify --head` then shows any rewriting of what came before)"))


def _shown(meters: dict[str, Any], all_hold: bool) -> list[tuple[str, Any]]:
    """All places of a filter that adds up by one or two; of a Renyi curve the order with the most room, which is the
    one that decides."""
    if all_hold or len(meters) == 2:
        return sorted(meters.items(), reverse=True)

    def room(item: tuple[str, Any]) -> float:
        values = item[1]
        return float((values["capacity"] - values["spent"] - values["reserved"]) / values["capacity"])

    order, values = max(meters.items(), key=room)
    return [(f"order {figure(float(order))}:", values)]

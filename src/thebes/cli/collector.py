"""`thebes collector`: programs that fill a person's store: find, install, run, remove, sign and publish them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.cli import collector_runs, output
from thebes.cli import collector_words as shown
from thebes.privacy.faults import Mistake, Refusal

app = typer.Typer(
    help="Programs that fill a person's store: find, install, run and remove them; sign and publish your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Home = Annotated[Path, typer.Option("--home", envvar="THEBES_HOME", help="The person's home.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="As `thebes collector list` shows it.")]


@app.command("list")
def list_(
    home: Annotated[
        Path | None, typer.Option("--home", envvar="THEBES_HOME", help="Show what is installed there.")
    ] = None,
    json: str | None = output.json_option(),
) -> None:
    """List every collector there is, and what is installed at a home: last run, next run, rows.

    Example: thebes collector list --home ~/thebes
    """
    from thebes.collectors.registry import offers

    rows = [*shown.installed_rows(home)] if home is not None else []
    taken = {row["collector"] for row in rows}
    for found in offers():
        if found.name not in taken:
            part = "thebes" if found.package is None else found.package
            rows.append({"name": found.name, "collector": found.name, "installed": False, "package": part})
    if json is not None:
        output.write_json(json, rows)
        return
    for row in rows:
        typer.echo(shown.line(row))
    if not taken:
        typer.echo("What one reads: thebes collector show NAME; to begin: thebes collector install NAME", err=True)


@app.command()
def show(name: _Name, json: str | None = output.json_option()) -> None:
    """Show what a collector reads, which tables and columns it fills, and its options.

    Example: thebes collector show browser
    """
    from thebes.collectors.registry import load, offer

    made, told = load(offer(name))
    if json is not None:
        output.write_json(json, shown.described(made, made.tables, told))
        return
    for line in shown.explained(made, made.tables, told):
        typer.echo(line)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def install(
    context: typer.Context,
    name: _Name,
    home: _Home,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="APP", help="Its name in the store and in SQL, if not NAME.")
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="N", help='How often: "15m", "2h", "1d", or "once".')
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    preview: Annotated[
        bool, typer.Option("--preview", help="Only show what it would keep of your files; install and store nothing.")
    ] = False,
) -> None:
    """Show what a collector reads and fills, and install it once you agree. The collector's own options come after
    these: see `show NAME`.

    Run again without options, it keeps those that are set: this is how you agree to what a newer version fills.

    Example: thebes collector install table --as rides --file rides.csv --home ~/thebes
    """
    from thebes.collectors.declaration import declaration
    from thebes.collectors.installation import Installed, Record, stamp
    from thebes.collectors.options import read_interval, read_options
    from thebes.collectors.registry import load, offer
    from thebes.data.store.declaration import collector_name

    place = Installed(home)
    found = offer(name)
    told = found.publication()
    if told is not None:
        place.same_publisher(told)  # before anything of the package runs
    made, told = load(found)
    if made.many and as_ is None:
        raise Mistake("--as", f"is needed for {name}: what its rows are called in SQL, for instance --as rides")
    called = collector_name(as_ or name)
    before = place.find(called)
    if before is not None and before.collector != name:
        raise Mistake("--as", f"{called!r} is installed already, as {before.collector}; choose another name")
    seconds = made.every.total_seconds() if made.every is not None else None
    if before is not None and not context.args:
        options, seconds = collector_runs.options_of(made, before), before.every_seconds
    else:
        options = read_options(made.options, context.args)
    if every is not None:
        seconds = None if every == "once" else read_interval(every)
    declared = declaration(made, made.declare(options, collector_runs.state_of(place, made, called)))
    for line in shown.explained(made, declared.tables, told, called=called, seconds=seconds):
        typer.echo(line)
    for doubt in made.doubts():
        typer.echo(f"  ? {doubt}")
    if preview:
        collector_runs.previewed(made, called, options)
        return
    if not yes and not collector_runs.agreed("Install it?", else_say="--yes"):
        raise Refusal("nothing was installed")
    if told is not None:
        place.trust(told)
    agreed = {table.name: [column.name for column in table.columns] for table in declared.tables}
    place.write(Record(called, name, made.version, options, seconds, stamp(), agreed))
    typer.echo(f"{called} is installed. `thebes collector run {called} --home {home}` fills it.")


@app.command()
def run(
    home: _Home,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="As it was installed.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every installed collector that is due.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Run once and end (the default).")] = False,
    every: Annotated[bool, typer.Option("--every", help="Keep running, at the interval that was set.")] = False,
    json: str | None = output.json_option(),
) -> None:
    """Run a collector now, or keep running and start whatever is due. `thebes person` must be running for the home.

    Example: thebes collector run --all --every --home ~/thebes
    """
    from thebes.collectors.installation import Installed

    if (name is None) == (not all_):
        raise Mistake("NAME", "give one collector's name or --all, not both")
    if once and every:
        raise Mistake("--every", "cannot be given together with --once")
    place = Installed(home)
    if name is not None:
        record = place.record(name)
        if every and record.every_seconds is None:
            raise Mistake("--every", f"{name} was installed to run once; install it again with --every 1h")
        runs = [collector_runs.ran(place, record, quiet=json is not None)] if not every else []
        failed = [error for _, error in runs if error is not None]
        if failed:
            raise failed[0]
    else:
        runs = [*collector_runs.due(place, None, quiet=json is not None)] if not every else []
        if not runs and not every and json is None:
            typer.echo(shown.none_due(place))
    if json is not None:
        output.write_json(json, [told for told, _ in runs])
    if every:
        collector_runs.stay(place, name)
    if any(error is not None for _, error in runs):
        raise Refusal("not every collector could run; see above")


@app.command()
def remove(
    name: _Name,
    home: _Home,
    keep_data: Annotated[
        bool | None,
        typer.Option("--keep-data/--with-data", help="Whether the rows it inserted stay.", show_default=False),
    ] = None,
    forget_publisher: Annotated[
        bool, typer.Option("--forget-publisher", help="Also forget the pinned key of its publisher.")
    ] = False,
) -> None:
    """Remove a collector; you are asked whether its rows stay. If it is installed again, it can add to rows that
    stayed.

    Example: thebes collector remove browser --with-data --home ~/thebes
    """
    from thebes.collectors.installation import Installed

    place = Installed(home)
    record = place.find(name)
    if record is None:
        if not forget_publisher:
            place.record(name)
        place.distrust(name)
        typer.echo(f"The key of {name}'s publisher is forgotten; the next installation pins the one it finds.")
        return
    with collector_runs.person_of(place) as person:
        held = {str(collector["name"]).lower() for collector in person.store()}
        if name.lower() in held:
            keep = keep_data
            if keep is None:
                keep = collector_runs.agreed("Keep the rows it inserted?", else_say="--keep-data or --with-data")
            person.remove(name, keep_data=keep)
            typer.echo(f"{name}: its rows {'stay in your store' if keep else 'and all it knew are deleted'}.")
    place.forget(name)
    if forget_publisher:
        place.distrust(record.collector)
    typer.echo(f"{name} is removed.")


@app.command()
def sign(
    entry: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="Your collector, as in the entry point.")],
    key: Annotated[Path, typer.Option("--key", help="Your publisher's key: Ed25519, PEM, mode 0600.")],
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key first.")] = False,
) -> None:
    """Write publication.json into your collector's package: what it is and the digests of its files, signed.

    Example: thebes collector sign acme_steps.collector:Steps --key ~/acme.pem --new-key
    """
    import sys

    from thebes.collectors.declaration import declaration
    from thebes.collectors.publication import make_key, read_key, read_publication
    from thebes.collectors.publication import sign as write
    from thebes.collectors.registry import InstallableCollector, loaded
    from thebes.data.store.declaration import Declaration

    sys.path.insert(0, str(Path.cwd()))  # as `python -m` would find it
    made = loaded(entry)
    declared = declaration(made, made.tables) if made.tables else Declaration(())
    folder = InstallableCollector(made.name, entry, "").folder
    if new_key:
        make_key(key)
    path = write(
        folder,
        read_key(key),
        name=made.name,
        version=made.version,
        entry=entry,
        description=made.description,
        declared=declared,
    )
    told = read_publication(path)
    typer.echo(f"{path} describes {told.name} {told.version}, {len(told.files)} files, signed by {told.fingerprint}.")
    typer.echo("Sign again after every change; ship the file inside the package.")


@app.command()
def publish(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A publication.json, or the name of a shipped one.")],
    coordinator: Annotated[
        str | None,
        typer.Option("--coordinator", metavar="URL", envvar="THEBES_COORDINATOR", help="The coordinator's address."),
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", metavar="T", envvar="THEBES_TOKEN", help="An operator's token.")
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file", envvar="THEBES_CA_FILE", help="PEM file, where the deployment has its own authority."
        ),
    ] = None,
) -> None:
    """Tell a coordinator which tables a collector fills, so that requestors can ask about them: for operators.

    Example: thebes collector publish acme_steps/publication.json --coordinator https://coordinator.example
    """
    from thebes.wire.client import CoordinatorClient

    name, tables = _published(file)
    if coordinator is None:
        raise Mistake("--coordinator", "is needed: where the coordinator listens, or THEBES_COORDINATOR")
    if not tables:
        raise Mistake("FILE", f"{name} has no tables of its own: they depend on the file that a person gives it")
    with CoordinatorClient(coordinator, token, ca_file=ca_file) as client:
        client.publish_schema(name, tables)
    typer.echo(f"{name}: {', '.join(tables)} can be asked about at {coordinator} now.")


def _published(file: Path) -> tuple[str, dict[str, Any]]:
    from thebes.collectors.publication import read_publication
    from thebes.collectors.registry import load, offer
    from thebes.data.store.declaration import Declaration

    if file.is_file():
        told = read_publication(file)
        return told.name, dict(told.tables)
    if file.suffix or len(file.parts) != 1:
        raise Mistake("FILE", f"there is no file {str(file)!r}")
    made, _ = load(offer(file.name))
    return made.name, Declaration(tuple(made.tables)).plain()

"""`thebes model`: models that pipelines published at a site, shown and asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.help_pages import Commands
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.curator.pipelines.model_store import ModelStore

app = typer.Typer(
    help="Models in the store of a site. A coordinator's home stands for its own site.",
    no_args_is_help=True,
    cls=Commands,
    rich_markup_mode=None,
)

_Name = Annotated[str, typer.Argument(help="The model: the name of the pipeline that published it.")]
_Version = Annotated[int | None, typer.Option("--version", help="Which version. Default: the newest.")]


@app.command("list")
def list_(home: output.SiteFolder, as_json: output.JsonTarget = None) -> None:
    """List the newest version of every model.

    Example: thebes model list --home ./site
    """
    told = _store(home).told()
    if as_json is not None:
        output.write_json(as_json, {"models": told})
        return
    for each in told:
        what = f"{each['output'] or 'shares'} from {', '.join(each['inputs'])}"
        typer.echo(f"{each['name']}, version {each['version']}: {what}, trained on {each['stream']}")
    if not told:
        typer.echo(f"No model has been accepted in {home}.")


@app.command()
def show(name: _Name, home: output.SiteFolder, version: _Version = None, as_json: output.JsonTarget = None) -> None:
    """Show what a model was shown to reach, and what it cost. --json gives everything, also the model itself.

    Example: thebes model show speed --home ./site --json speed.json
    """
    bundle = _there(_store(home).whole(name, version))
    if as_json is not None:
        output.write_json(as_json, bundle)
        return
    typer.echo(f"{name}, version {bundle['version']} of {len(bundle['versions'])}, published {bundle['published_at']}")
    for each in bundle["validation"]:
        if each.get("bound") is not None:
            typer.echo(f"{each['metric']} is {figure(each['bound'], 4)} or better, wanted {figure(each['target'])}")
    typer.echo(bundle["certificate"]["text"])


@app.command()
def predict(
    name: _Name,
    file: Annotated[Path, typer.Argument(help="Rows with the data set's own columns (.csv).")],
    home: output.SiteFolder,
    version: _Version = None,
    as_json: output.JsonTarget = None,
) -> None:
    """Write what a model predicts for every row of a file, one line for each row. A line is empty if the model has no
    number.

    Example: thebes model predict speed rides.csv --home ./site
    """
    import math

    import pandas as pd

    from thebes.curator.pipelines.served_model import Served

    bundle = _there(_store(home).whole(name, version))
    try:
        rows = pd.read_csv(file)
    except (OSError, ValueError):  # what pandas says of a file may hold what is in it
        raise Mistake("FILE", f"{str(file)!r} cannot be read as a table with commas between its columns") from None
    said = [float(each) if math.isfinite(each) else None for each in Served(bundle).predict(rows)]
    if as_json is not None:
        output.write_json(as_json, {"model": name, "version": bundle["version"], "predictions": said})
        return
    for each in said:
        typer.echo("" if each is None else figure(each))


def _store(home: Path) -> ModelStore:
    from thebes.curator.pipelines.model_store import ModelStore
    from thebes.site.home import SiteHome

    return ModelStore(SiteHome(home).folder)


def _there(bundle: dict[str, Any] | None) -> dict[str, Any]:
    if bundle is None:
        raise Mistake("NAME", "there is no model of that name, or no such version of it; see `thebes model list`")
    return bundle

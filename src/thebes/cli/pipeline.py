"""`thebes pipeline`: models trained from a growing data set, again and again, until they are good enough."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thebes.cli import output
from thebes.cli.help_pages import Commands
from thebes.cli.stop_signals import Rest
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.curator.pipelines.attempt_store import Attempt, PipelineRun
    from thebes.curator.pipelines.pipeline import Pipeline
    from thebes.curator.pipelines.workspace import Workspace

app = typer.Typer(
    help="Train models from a growing data set at its site. A coordinator's home stands for its own site.",
    no_args_is_help=True,
    cls=Commands,
    rich_markup_mode=None,
)

_LOOK = 5.0  #: seconds between two looks at whether blocks can pay


@app.command()
def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="A document of a ready pipeline (.json), or Python with a class that derives from Pipeline."
        ),
    ],
    home: output.SiteFolder,
    developer: Annotated[str, typer.Option("--as", help="Who runs it: a rule of the policy must let them.")],
    name: Annotated[str | None, typer.Option("--name", help="Which pipeline, where the file has several.")] = None,
    window: Annotated[
        str | None, typer.Option(help="Only blocks of this time: 30d. Default: the pipeline's own.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="Begin again each time this has passed, until stopped: 1d.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for data or budget until the pipeline's timeout.")] = False,
    as_json: output.JsonTarget = None,
) -> None:
    """Run a pipeline until it is accepted, rejected or out of time. Without --wait it also ends where it would have to
    wait, and the next run goes on from there. Every attempt is charged to its blocks before it reads them.

    Example: thebes pipeline run speed.py --home ./site --as ana --every 1d --window 30d
    """
    from thebes.curator.pipelines.loader import pipelines_in
    from thebes.curator.pipelines.pipeline import seconds
    from thebes.curator.pipelines.workspace import Workspace
    from thebes.site.home import SiteHome

    pause = None if every is None else seconds(every, "--every")
    pipelines, source = pipelines_in(file)
    pipeline = _chosen(pipelines, name)
    if window is not None:
        pipeline.window = window
        pipeline.check()
    rest = Rest()
    if pause is None:
        _once(pipeline, source, home, developer, wait, as_json, rest)
        return
    rest.end_in_it(signal.SIGTERM)
    with closing(Workspace(SiteHome(home).folder)) as workspace, workspace.staying(pipeline.name):
        _until_stopped(lambda: _once(pipeline, source, home, developer, wait, as_json, rest), pause, rest)


@app.command("list")
def list_(home: output.SiteFolder, as_json: output.JsonTarget = None) -> None:
    """List every pipeline, with its latest run and the versions of its model.

    Example: thebes pipeline list --home ./site
    """
    from thebes.curator.pipelines.workspace import Workspace
    from thebes.site.home import SiteHome

    with closing(Workspace(SiteHome(home).folder)) as workspace:
        runs: dict[str, list[PipelineRun]] = {}
        for one in workspace.attempts.runs(most=1000):
            runs.setdefault(one.pipeline, []).append(one)
        if as_json is not None:
            output.write_json(as_json, {"pipelines": [_listed(name, runs[name], workspace) for name in sorted(runs)]})
            return
        for name in sorted(runs):
            versions = workspace.bundles.versions(name)
            model = f"version {versions[-1]} in the store" if versions else "no model yet"
            typer.echo(f"{name} over {runs[name][0].stream}, {len(runs[name])} runs, {model}; {_stands(runs[name][0])}")
        if not runs:
            typer.echo(f"No pipeline has been run in {home}.")


def _once(
    pipeline: Pipeline, source: str, home: Path, developer: str, wait: bool, as_json: str | None, rest: Rest
) -> None:
    from thebes.curator.pipelines.attempt_store import RunState
    from thebes.curator.pipelines.runner import Runner
    from thebes.curator.pipelines.workspace import Workspace
    from thebes.ledger import Ledger
    from thebes.site.budget.pipeline_rights import PipelineRights
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome
    from thebes.site.streams import stream_of, turns_of

    place = SiteHome(home)
    dataset = DataSets(place).get(pipeline.stream)
    if dataset is None:
        raise Mistake("stream", f"there is no data set {pipeline.stream!r} in {place.datasets}")
    with Ledger(place.ledger) as ledger, closing(Workspace(place.folder)) as workspace:
        with ExitStack() as opened:
            stream = opened.enter_context(closing(stream_of(place, dataset, ledger)))
            turns = turns_of(place, dataset, ledger)
            if turns is not None:
                opened.enter_context(closing(turns))
            rights = PipelineRights(place, stream, developer, workspace.attempts)
            rights.rule()

            def told(attempt: Attempt) -> None:
                if as_json != "-":
                    _tell(attempt)
                rest.rest()

            runner = Runner(stream, workspace, developer, rights, told=told, turns=turns, bound=rights.context)
            ended = runner.run(pipeline, source=source, wait=(lambda: rest.rest(_LOOK)) if wait else None)
        attempts = workspace.attempts.attempts(ended.id)
    if as_json is not None:
        output.write_json(as_json, ended.as_json(attempts))
    else:
        typer.echo(f"{pipeline.name}: {_stands(ended)}")
    if ended.state is RunState.FAILED:
        typer.echo(f"thebes: the pipeline {pipeline.name} failed: {ended.reason}; what it was charged stays", err=True)
        raise typer.Exit(1)


def _until_stopped(once: Callable[[], None], pause: float, rest: Rest) -> None:
    """Again and again, each time counted from the one before."""
    due = time.monotonic()
    while True:
        with suppress(typer.Exit):  # said already; the next one may have other data
            once()
        due = max(due + pause, time.monotonic())
        rest.rest(max(0.0, due - time.monotonic()))


def _chosen(pipelines: dict[str, Pipeline], name: str | None) -> Pipeline:
    if name is not None:
        if name not in pipelines:
            raise Mistake("--name", f"{name!r} is none of {', '.join(pipelines)}")
        return pipelines[name]
    if len(pipelines) > 1:
        raise Mistake("--name", f"must say which of {', '.join(pipelines)}")
    return next(iter(pipelines.values()))


def _tell(attempt: Attempt) -> None:
    """One attempt in a line."""
    rows = "" if attempt.rows is None else f", about {attempt.rows:,.0f} rows"
    cost = f"epsilon {figure(float(attempt.epsilon))} of each of {len(attempt.blocks)} blocks{rows}"
    typer.echo(f"attempt {attempt.number}: {cost}: {attempt.verdict or attempt.state}{_metrics(attempt)}")


def _metrics(attempt: Attempt) -> str:
    said = [
        f"{one['metric']} is {figure(one['bound'], 4)} or better, wanted {figure(one['target'])}"
        for one in (attempt.validation or {}).get("metrics", [])
        if one.get("bound") is not None
    ]
    return f" ({'; '.join(said)})" if said else ""


def _stands(run: PipelineRun) -> str:
    verdict = run.verdict or str(run.state)
    if run.version is not None:
        return f"{verdict}, version {run.version}"
    return f"{verdict} ({run.reason})" if run.reason else verdict


def _listed(name: str, runs: list[PipelineRun], workspace: Workspace) -> dict[str, Any]:
    return {
        "name": name,
        "stream": runs[0].stream,
        "developer": runs[0].spender,
        "versions": workspace.bundles.versions(name),
        "runs": [run.as_json(workspace.attempts.attempts(run.id)) for run in runs[:20]],
    }

"""`thebes demo`: a coordinator, many people and a requestor on this machine, and their answers beside the truth.

What must stay true: everything goes through the doors that everybody uses, and nothing is left behind.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from logging import NullHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thebes.cli import output
from thebes.cli.demo.progress import bars, step
from thebes.privacy.faults import Fault, Mistake, ThebesError
from thebes.privacy.figures import figure, plural
from thebes.tasks import kind_failure
from thebes.tasks.kind_failure import KindFailed, guarded

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from thebes.cli.demo.deployment import Stage
    from thebes.cli.demo.scenes import Failed
    from thebes.tasks.release import Release
    from thebes.tasks.scene import Scene, SceneVerdict, SiteScene

FAILED = "FAILED"
FOLDER = "thebes-demo."  #: begins the names of the folders that demos hold
COLUMNS = ("task", "true", "released", "95 % interval", "epsilon", "s", "")


def demo(
    people: int = typer.Option(300, min=50, max=2000, help="How many people to make up."),
    sites: int = typer.Option(3, min=0, max=10, help="How many hospitals with made-up patients; 0 for none."),
    seed: int = typer.Option(7, min=0, help="Which people to make up; the answers stay truly random."),
    exit: bool = typer.Option(False, "--exit", help="End when done; status 0 only if no part failed."),
    kind: list[str] = typer.Option([], "--kind", help="Play only this kind of task; give it again for another."),
    json: str | None = output.json_option(),
) -> None:
    """Run the whole system on this machine with made-up people and hospitals: every kind of task, beside the truth.

    "ok": the 95 % error bar holds the truth, or a model beats guessing about other people by more than luck explains in
    one of a hundred cases. "outside": the bar misses the truth, as one in twenty does. "guess": the model is not shown
    to be better than guessing, as so few people teach little. Neither is a failure. A failure is an answer so far off
    that no noise explains it, or no answer.

    Example: thebes demo --people 300 --exit
    """
    from rich.console import Console

    from thebes.cli.demo.deployment import Stage
    from thebes.cli.demo.scenes import scenes, sharpness, waiting
    from thebes.cli.stop_signals import StopAsked, stoppable
    from thebes.data.engines.scratch import Scratch

    sites = sites_of(kind, sites)
    started = time.perf_counter()
    console = Console(stderr=json == "-")
    rows: list[dict[str, Any]] = []

    def without(type_: str, failed: KindFailed) -> None:
        typer.echo(f"thebes: {failed}", err=True)
        rows.append({**_row(type_, f"scenes of {type_}", None), "seconds": 0.0})

    kind_failure.log.addHandler(NullHandler())  # it is told here
    playing = True
    if (times := sharpness(people)) > 1:
        few = f"of so few people as {people} each pays {figure(times)} times the usual epsilon in most tasks"
        typer.echo(f"thebes: {few}, for about as sharp an answer", err=True)
    try:
        with stoppable() as heed, ExitStack() as stack:
            held = Scratch(_quick_place(people), FOLDER)  # sweeps those of demos that were killed
            stack.callback(held.close)
            folder = held.folder
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "torch")  # which PyTorch makes when it is first used
            progress = stack.enter_context(bars())
            with step(progress, "people come in", people) as told:
                stage = stack.enter_context(Stage(folder, people=people, sites=sites, seed=seed, told=told, heed=heed))
            if progress is None:
                joined = f" and {sites} sites are linked" if sites else ""
                _tell_step(f"{people} people have come in{joined}", time.perf_counter() - started)
            helper = None if stage.hospitals is None else stage.hospitals.helper
            for scene in scenes(people, without, kind, helper=helper):
                if scene.left_out:
                    typer.echo(f"thebes: {scene.name}: left out, {scene.left_out}", err=True)
                    continue
                rows.append(_play(stage, scene, progress))
                if progress is None:
                    _tell_step(f"{scene.name}: {rows[-1]['verdict']}", rows[-1]["seconds"])
            for asked in _asked_of(stage, without, kind):
                rows.append(_ask_sites(stage, asked, progress))
                if progress is None:
                    _tell_step(f"{asked.name}: {rows[-1]['verdict']}", rows[-1]["seconds"])
            for scene in [] if exit else waiting(people):
                _play(stage, scene, progress, leave=1)
            heed()
            if progress is not None:
                progress.stop()
            show(rows, people, sites, console)
            tell_dear(rows, console)
            if all(row["verdict"] != FAILED for row in rows):
                console.print("Every answer was verified against the coordinator's signed list.", highlight=False)
            if not exit:
                _tell_addresses(stage, console)
            if json is not None:
                seconds = time.perf_counter() - started
                played = {"tasks": rows, "urls": stage.urls, "seconds": seconds}
                output.write_json(json, played, secret=True)  # an address has a code that opens the person's page
                sys.stdout.flush()
            heed()
            playing = False
            if not exit:
                stage.live()
    except StopAsked:
        if playing:
            typer.echo("thebes: stopped before the end", err=True)
            raise typer.Exit(1) from None
    if any(row["verdict"] == FAILED for row in rows):
        typer.echo("thebes: a part of the demo did not work; see the line marked FAILED", err=True)
        raise typer.Exit(1)


def show(rows: list[dict[str, Any]], people: int, sites: int, console: Console) -> None:
    """The answers beside the truth, within eighty columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = f"{people} made-up people" + (f", {sites} hospitals" if sites else "")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0, pad_edge=False)
    for heading in COLUMNS:
        justify: Any = "right" if heading in ("true", "released", "epsilon", "s") else "left"
        table.add_column(heading, no_wrap=True, justify=justify)
    for row in rows:
        bar = row["interval"]
        table.add_row(
            row["name"],
            "-" if row["true"] is None else f"{figure(row['true'], 4)}",
            "-" if row["value"] is None else f"{figure(row['value'], 4)}",
            _measured(row) if bar is None else f"{figure(bar['low'], 4)} to {figure(bar['high'], 4)}",
            "-" if row["epsilon"] is None else f"{figure(row['epsilon'])}",
            f"{row['seconds']:.1f}",
            row["verdict"],
        )
    console.print(table)
    for row in rows:
        if "answer" in row:
            console.print(f"{row['name']}: {row['answer']}", highlight=False)


def tell_dear(rows: list[dict[str, Any]], console: Console) -> None:
    """Say which tasks a person would be asked about twice who keeps the limits that are proposed."""
    from thebes.tasks import registry
    from thebes.web.person.limits import PROPOSED

    most = float(PROPOSED[0][2])
    people = registry.people_types()
    dear = [row for row in rows if row.get("type") in people and (row.get("epsilon") or 0) > most]
    if dear:
        told = f"{plural(len(dear), 'task')} of these took more than epsilon {figure(most)} of each person"
        console.print(f"{told}: with the proposed limits a person is asked twice before that.", highlight=False)


def _measured(row: dict[str, Any]) -> str:
    """Say what a model is measured by, and what guessing gives."""
    metric = row.get("metric", "-")
    return f"{metric}, guess {figure(row['guessing'], 2)}" if "guessing" in row else metric


def _tell_step(what: str, seconds: float) -> None:
    """One line for whoever reads what no terminal shows; there is no bar."""
    typer.echo(f"{what}, {seconds:.1f} s", err=True)


def _tell_addresses(stage: Stage, console: Console) -> None:
    console.print(
        f"\nthe coordinator: {stage.urls['coordinator']}\n"
        f"one person's machine: {stage.urls['person']}\n"
        + "".join(f"the {name}: {url}\n" for name, url in stage.urls.items() if name.startswith("site "))
        + f"a requestor's token: {stage.token_file}\n\n"
        "Questions wait for that person's answer. New ones are answered by the others too.\nCtrl-C ends it.",
        highlight=False,
        soft_wrap=True,
    )


def sites_of(kinds: list[str], sites: int) -> int:
    """Return how many hospitals kinds need, if any are named; Mistake where one is no kind."""
    from thebes.tasks import registry

    known = [*registry.people_types(), *registry.site_types()]
    for kind in kinds:
        if kind not in known:
            raise Mistake("--kind", f"must be one of {', '.join(sorted(known))}")
    return sites if not kinds or set(kinds) & set(registry.site_types()) else 0


def _asked_of(stage: Stage, without: Failed, kinds: list[str]) -> list[SiteScene]:
    """Return what the hospitals are asked, if there are any."""
    from thebes.cli.demo.scenes import site_scenes

    hospitals = stage.hospitals
    return [] if hospitals is None else site_scenes(hospitals.made_up, without, kinds)


def _row(type_: str, name: str, epsilon: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"type": type_, "name": name, "true": None, "value": None, "interval": None}
    return {**row, "epsilon": epsilon, "ok": False, "verdict": FAILED}


def _row_of(scene: Scene | SiteScene) -> dict[str, Any]:
    """Return what is told of a scene before it was played."""
    row = _row(scene.document["type"], scene.name, scene.document["epsilon"])
    return row if scene.metric is None else {**row, "metric": scene.metric}


def _judge(row: dict[str, Any], scene: Scene | SiteScene, release: Release, *rows: Any) -> None:
    """Write into its row what a scene says of a release beside these rows."""
    with guarded(row["type"], "judge"):
        verdict: SceneVerdict = scene.judge(release, *rows)
        _write(row, verdict)


def _write(row: dict[str, Any], verdict: SceneVerdict) -> None:
    row |= {"true": verdict.true, "value": verdict.value, "interval": verdict.interval}
    row |= {"ok": verdict.word == "ok", "verdict": verdict.word}
    if verdict.guessing is not None:
        row["guessing"] = verdict.guessing
    if verdict.answer is not None:
        row["answer"] = verdict.answer


def _ask_sites(stage: Stage, scene: SiteScene, progress: Progress | None) -> dict[str, Any]:
    """One scene of institutions from document to verdict. It works only if the release names who is missing."""
    started, row = time.perf_counter(), _row_of(scene)
    try:
        with step(progress, scene.name, scene.document.get("rounds", 1)) as told:
            release = stage.ask_sites(scene.document, told)
        covered = release.extra["coverage"]
        assert stage.hospitals is not None  # noqa: S101
        _judge(row, scene, release, stage.hospitals.patients(covered["answered"]))
        row["missing"] = covered["missing"]
        if set(covered["missing"]) != set(scene.missing):
            row |= {"ok": False, "verdict": FAILED}
        if scene.missing:
            row["answer"] = "; ".join(f"without {site}: {why}" for site, why in covered["missing"].items())
    except ThebesError as error:
        stage.check()
        typer.echo(f"thebes: {scene.name}: {error}", err=True)
    return {**row, "seconds": time.perf_counter() - started}


def _play(stage: Stage, scene: Scene, progress: Progress | None, *, leave: int = 0) -> dict[str, Any]:
    """One scene from document to verdict. With `leave`, so many answers are left for somebody else to give."""
    started, row = time.perf_counter(), _row_of(scene)
    count = scene.document["min_count"]
    try:
        with step(progress, scene.name, count) as told:
            if leave:
                stage.put_up(scene.document, count - leave, told)
                return row
            release, contributors = stage.run(scene.document, told)
        _judge(row, scene, release, stage.rows(scene.document, contributors), stage.others(scene.document))
    except ThebesError as error:
        stage.check()
        if isinstance(error, Fault) and leave:
            raise
        typer.echo(f"thebes: {scene.name}: {error}", err=True)
    return {**row, "seconds": time.perf_counter() - started}


def _quick_place(people: int) -> Path:
    """A folder in memory, where there is one with room: homes that end with the demo need no disk to wait for."""
    memory = Path("/dev/shm")  # noqa: S108
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return Path(tempfile.gettempdir())
    enough = 2**28 + 2**21 * people
    return memory if shutil.disk_usage(memory).free > enough else Path(tempfile.gettempdir())

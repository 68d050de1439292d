"""Tiresias, figure 5-1: how long a median and a linear regression take, by how many people answer."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.tiresias import PAPER

if TYPE_CHECKING:
    from papers.tiresias.clients import Coordinator

PEOPLE, QUICK_PEOPLE = (20, 50, 100, 1_000, 10_000), (20, 200)
HOMES = 12  #: people who are whole
EPSILON, DELTA = 1.0, 1e-5
TASKS: dict[str, dict[str, Any]] = {
    "median": {
        "type": "basic",
        "epsilon": EPSILON,
        "aggregator": "median",
        "featurizer": "SELECT age FROM profile.demographics",
        "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
    },
    "linear regression": {
        "type": "integrated",
        "quality": False,  # scored on rows of the experiment's own
        "epsilon": EPSILON,
        "delta": DELTA,
        "model": "LinearRegression",
        "inputs": ["x0", "x1"],
        "output": "z",
        "featurizer": "SELECT x0, x1, z FROM profile.example",
        "bounds": {
            "x0": {"type": "range", "low": -4, "high": 4},
            "x1": {"type": "range", "low": -4, "high": 4},
            "z": {"type": "range", "low": -12, "high": 12},
        },
    },
}
PHASES = {"whole": "whole", "putting it up": "publishing", "contributions": "contributions", "the answer": "answer"}
SECONDS, RATIO = "seconds", "a contribution, times two empty requests of a person"
NOTES = (
    "The paper has ten machines with ten clients each, and says that 100 take about one second, mostly on the network; "
    "its curves have no numbers. Here one machine's cores carry the coordinator and everybody who answers, over its "
    "loopback: no distance is in it, and what grows with the people is what one machine does for all of them.",
    "The coordinator is the command that people start, with its database on disk. A person fetches what is asked and "
    "sends what the owner's half of the task makes of their row, over a connection of their own, 16 at a time; these "
    f"people have no homes. In a whole run {HOMES} have, with store, ledger and book, and are processes of their own, "
    "which all wait for the same cores.",
    "The answer is the time from the last receipt until whoever asked has it. Not private stands for the same task, "
    "with the same noise, simulated in one process.",
    "Every task here is for everybody: it ends when all have answered. The least number of people that a coordinator "
    "takes by default is 11, so the curves begin at 20 and not at 10.",
)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    from papers.tiresias.clients import Coordinator
    from thebes.simulation import population

    rows: list[Row] = []
    counts = QUICK_PEOPLE if quick else PEOPLE
    with TemporaryDirectory(prefix="thebes-") as folder, Coordinator(Path(folder)) as there:
        for name, document in TASKS.items():
            first = population(min(counts), 0)
            there.ask(document, first)  # loads what the next ones find in memory, as does simulating it
            _simulated(document, first)
            for count in counts:
                crowds = [population(count, seed) for seed in seeds]
                runs = [there.ask(document, people) for people in crowds]
                once = _simulated(document, crowds[0])
                where: dict[str, Any] = {"at": float(count), "epsilon": EPSILON}
                for series, phase in PHASES.items():
                    taken = [getattr(run, phase) for run in runs]
                    ceiling = once if phase == "whole" else None
                    rows.append(Row.over(taken, panel=f"{name}, {SECONDS}", series=series, ceiling=ceiling, **where))
                beside = [run.beside_empty for run in runs if run.beside_empty is not None]
                rows.append(Row.over(beside, panel=RATIO, series=name, **where))
        if not quick:
            rows += _whole(Path(folder), there, len(seeds))
    rows.sort(key=lambda row: row.panel == RATIO)
    return Found(rows=rows, data="made-up people, as a client fills its store with them to try things", notes=NOTES)


def _whole(folder: Path, there: Coordinator, times: int) -> list[Row]:
    """The same questions to people with homes, so many times."""
    from papers.tiresias.clients import Homes

    rows = []
    with Homes(folder, HOMES, there.url) as homes:
        for name, document in TASKS.items():
            there.ask_homes(document, homes)
            taken = [there.ask_homes(document, homes).whole for _ in range(times)]
            rows.append(
                Row.over(taken, panel=f"{name}, {SECONDS}", series="with homes", at=float(HOMES), epsilon=EPSILON)
            )
    return rows


def _simulated(document: dict[str, Any], people: Any) -> float:
    """Seconds of the same in this process."""
    import thebes

    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        thebes.simulate(document, people.columns, seed=0)
    return time.perf_counter() - began


EXPERIMENT = Experiment(
    name="tiresias-figure-5-1",
    paper=PAPER,
    place="figure 5-1",
    shows="How long people's answers to a task take to arrive and to become one, by how many people they are.",
    measure="seconds, or what its panel says",
    across="people",
    find=find,
    seeds=3,
    quick_seeds=1,
    headline=Headline(panels=(SECONDS,), series=("whole",), drawn=(f"*{SECONDS}",)),
)

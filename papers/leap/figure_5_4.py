"""LEAP, figure 5.4: what a network learns, round after round, the more sites with pictures of their own take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from papers.experiment import Experiment, Headline
from papers.leap import PAPER
from papers.outcome import Found, Row

if TYPE_CHECKING:
    from papers.leap.pictures import Pictures
    from thebes.data.table import Table

SITES, QUICK_SITES = (1, 5, 10, 15), (1, 2)
ROUNDS, QUICK_ROUNDS = 24, 6
LOCAL = 5
LOOK, QUICK_LOOK = 4, 3  #: rounds between two looks at the accuracy
EPSILON, PRIVATE = 10_000.0, 8.0
CAREFUL = 0.1  #: the learning rate where noise is large


def find(quick: bool, seeds: Sequence[int]) -> Found:
    import pandas as pd

    from papers.leap.pictures import EACH, SCHEMA, WEIGHTS, pictures
    from thebes.data.engines.source import frame_table
    from thebes.data.schema import schema_of

    held, counts, schema = pictures(), QUICK_SITES if quick else SITES, schema_of(SCHEMA)
    most = held.at_sites(max(counts))
    tables: dict[str, Table] = {name: frame_table(schema, rows) for name, rows in most.items()}
    settings = [(f"{count} sites" if count > 1 else "1 site", count, EPSILON) for count in counts]
    if not quick:
        settings.append((f"{max(counts)} sites, epsilon {PRIVATE:g}", max(counts), PRIVATE))
    rows: list[Row] = []
    for series, count, epsilon in settings:
        sites = dict(list(tables.items())[:count])
        rows += _rows(series, [_curve(held, sites, quick, epsilon, seed) for seed in seeds], epsilon)
    whole: dict[str, Table] = {"all": frame_table(schema, pd.concat(most.values(), ignore_index=True))}
    rows += _rows("all pictures in one place", [_curve(held, whole, quick, EPSILON, seed) for seed in seeds], EPSILON)
    notes = (
        f"Each site has {EACH} pictures that no other has, as in the paper, and goes {LOCAL} "
        "steps on random samples of them between two averages. All pictures in one place means as many steps, on "
        "samples that are as many times larger.",
        "The paper's axis is seconds, which depend on the machines; rounds do not. How long a round takes is figure "
        "5.1's. All runs are simulated in one process, through the same code as at sites.",
        f"The paper trains ResNet-18 on lesions' pictures; a residual network of {WEIGHTS:,} weights and pictures of "
        "ten kinds, shrunk to 8 x 8 dots, stand in. Its curves have no numbers, so none are printed here.",
        f"Epsilon {EPSILON:,.0f} protects nobody and shows what averaging does by itself"
        + ("." if quick else f"; epsilon {PRIVATE:g} is what protection of a row costs."),
    )
    return Found(rows=rows, data=str(held), made_up=held.made_up, notes=notes)


def _rows(series: str, curves: Sequence[Mapping[int, float]], epsilon: float) -> list[Row]:
    return [Row.over([curve[at] for curve in curves], series=series, at=at, epsilon=epsilon) for at in curves[0]]


def _curve(held: Pictures, sites: Mapping[str, Table], quick: bool, epsilon: float, seed: int) -> dict[int, float]:
    """The accuracy on held-out pictures after so many rounds."""
    from papers.leap.pictures import training
    from thebes.privacy import randomness
    from thebes.simulation.sites import run
    from thebes.tasks import registry
    from thebes.tasks.train.release import value_of

    asked = training(
        dataset="pictures",
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        local_steps=LOCAL,
        batch=0.12,
        epsilon=epsilon,
        average="last",
        **({"learning_rate": CAREFUL} if epsilon == PRIVATE else {}),
    )
    document: Any = registry.check(asked)
    seen: list[Any] = []
    plans: list[Any] = []

    def look(aggregator: Any) -> None:
        seen.append(aggregator.memory()[1]["weights"].copy())
        plans.append(aggregator.plan)

    release: Any = run(document, sites, randomness.seeded_for_simulation(seed), look=look)
    answers, every = held.test["kind"].to_numpy(), QUICK_LOOK if quick else LOOK
    found = {}
    for number, weights in enumerate(seen, 1):
        if number % every == 0 or number == len(seen):
            then = replace(release, value=value_of(plans[-1], weights))
            found[number] = float((then.model.predict(held.test) == answers).mean())
    return found


EXPERIMENT = Experiment(
    name="leap-5-4",
    paper=PAPER,
    place="figure 5.4",
    shows="What is learned round after round, by how many sites with data of their own take part.",
    measure="accuracy on held-out pictures",
    across="rounds",
    find=find,
    unit="row",
    seeds=1,
    quick_seeds=1,
    better="more",
    blind=0.2,
    headline=Headline(at=(4, 12, 24), drawn=("*",), differs=2),
)

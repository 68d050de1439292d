"""The thesis' figures 10.1 to 10.10: what is paid for 500 statistical questions and for descents of two models, and how
far the models come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.smartcache import PAPER

STEPS, QUICK_STEPS = 100, 8
QUICK_ROWS = (8000, 1000)  #: to learn from, by model; so few drown in noise, more take longer
POINTS = (1, 2, 4, 8, 12, 16, 20, 30, 40, 50, 60, 70, 80, 90, 100)
_NAMES = ("avocado", "bank")
DESCENTS = (
    "Ridge regression and a network with one hidden layer of 8 predict the average price of avocados, and whether a "
    "client of the bank says yes; one row in five is held back. The thesis does not print what it predicts.",
    "A direction with noise is (.05, 1e-9)-private; what is paid adds up in rho and is read at delta 1e-6. Made-up "
    "rows cost epsilon .1 once, which is much in rho, as they are known to be epsilon-private only.",
    "smart: a direction out of made-up rows is used where a sparse vector finds that its cosine with the exact one is "
    "at least .8; the thesis lets it pass against a noisy threshold whose sensitivity is too small.",
)


def _statistics(name: str) -> Callable[[bool, Sequence[int]], Found]:
    def find(quick: bool, seeds: Sequence[int]) -> Found:
        from papers.smartcache import statistics
        from papers.smartcache.tables import about, table

        asked = table(name)
        found = statistics.rows(name, statistics.shown(), quick, seeds)
        return Found(rows=found, data=about(asked), made_up=asked.made_up, notes=statistics.NOTES)

    return find


def _descent(name: str, model: int, paid: bool) -> Callable[[bool, Sequence[int]], Found]:
    def find(quick: bool, seeds: Sequence[int]) -> Found:
        from papers.smartcache.descents import HOW, MODELS, PLAIN, descend
        from papers.smartcache.tables import about, table

        steps, most = (QUICK_STEPS, QUICK_ROWS[model]) if quick else (STEPS, 0)
        rows: list[Row] = []
        for how in HOW:
            if paid and how == PLAIN:
                continue
            found = [descend(name, MODELS[model], how, steps, seed, most) for seed in seeds]
            for at in (at for at in POINTS if at <= steps):
                costs = [one.paid[at - 1] for one in found]
                told = costs if paid else [one.losses[at - 1] for one in found]
                cost = None if how == PLAIN else float(np.mean(costs))
                rows.append(Row.over(told, series=how, at=float(at), epsilon=cost))
        asked = table(name)
        return Found(rows=rows, data=about(asked), made_up=asked.made_up, notes=DESCENTS)

    return find


def _experiment(
    number: int, find: Callable[[bool, Sequence[int]], Found], shows: str, measure: str, across: str
) -> Experiment:
    return Experiment(
        name=f"smartcache-figure-10-{number}",
        paper=PAPER,
        place=f"figure 10.{number}",
        shows=shows,
        measure=measure,
        across=across,
        find=find,
        unit="row",
        seeds=3 if number <= 2 else 2,
        quick_seeds=1,
        better="less",
        blind=1.0 if number <= 2 else 0.3,  # of one question after another
        headline=_told(number),
    )


def _told(number: int) -> Headline:
    if number <= 2:
        first = ("epsilon paid, a pool", "mean error, a pool")
        return Headline(panels=first, at=(500.0,), drawn=("epsilon paid, a pool*",), differs=3)
    return Headline(at=(8.0, 30.0, 100.0), drawn=("*",) if number >= 7 else (), differs=1)


_SAVED = "Reusing exact answers saves most; with Gaussian noise it leaves little that a synopsis could save."
_COSTS = "Noise that is added up in rho is so cheap for a descent that made-up rows hardly save any of it."
_COMES = "Whoever descends by made-up rows alone stays behind; with noise, models come nearly as far as without."
EXPERIMENTS = (
    *(
        _experiment(
            1 + place,
            _statistics(name),
            _SAVED,
            "what one row has paid, and how far answers are off",
            "questions asked",
        )
        for place, name in enumerate(_NAMES)
    ),
    *(
        _experiment(
            (3 if paid else 7) + 2 * model + place,
            _descent(name, model, paid),
            _COSTS if paid else _COMES,
            "epsilon that one row has paid" if paid else "loss on rows held back",
            "steps",
        )
        for paid in (True, False)
        for model in (0, 1)
        for place, name in enumerate(_NAMES)
    ),
)

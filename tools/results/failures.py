"""The list of what does not work, and why."""

from __future__ import annotations

from collections.abc import Iterator

from papers.tiresias.table_people import CHANCE, TRUSTED, UNTRUSTED
from tools.results.cells import Kept, one
from tools.results.epsilons import PULLS, ROW

#: what does not work, and why: words with places for rows of an outcome (panel, series; the last place along the axis)
FAILURES: tuple[tuple[str, str, dict[str, tuple[str, str, float | str | None]]], ...] = (
    (
        "**A small epsilon, few people and nobody to trust teach nothing.** A forecast by a thousand people at epsilon "
        ".1 has an AUC of {a.ours:.2f}, by 32,000 of {b.ours:.2f} (.5 is a coin; {b.ceiling:.2f} without noise). Each "
        "drowns their own answer in noise; a collector who is trusted adds one noise for all ({c.ours:.2f}).",
        "tiresias-people",
        {"a": (CHANCE, f"{UNTRUSTED}, epsilon 0.1", 1000.0), "b": (CHANCE, f"{UNTRUSTED}, epsilon 0.1", 32_000.0),
         "c": (CHANCE, f"{TRUSTED}, epsilon 0.1", 32_000.0)},
    ),
    (
        "**A report about thirty columns needs an epsilon of several.** Tumours are told by one report of each patient "
        "with an accuracy of {a.ours:.2f} at epsilon 1 (always the usual one: 0.63) and of {b.ours:.2f} at 8; where "
        "somebody is trusted with the rows, of {c.ours:.2f} at 1.",
        "tiresias-table-5-1",
        {"a": ("cancer", ROW, 1.0), "b": ("cancer", ROW, 8.0), "c": ("cancer", "integrated, logistic regression", 1.0)},
    ),
    (
        "**Hearing everybody in every round leaves little for each.** With epsilon 8 for all rounds together, a "
        "hundred people teach which pull requests are merged to an AUC of {a.ours:.2f}; each heard in one round, to "
        "{b.ours:.2f}.",
        "tiresias-table-5-3",
        {"a": (PULLS, "gradient, person-level, each in all rounds", 8.0), "b": (PULLS, "gradient, person-level", 8.0)},
    ),
    (
        "**A vote cut at one half never finds a rare answer.** At epsilon {a.epsilon:g} the paper's ensemble, to the "
        "letter, tells students who withdraw from others with an AUC of {a.ours:.2f} ({a.ceiling:.2f} without any "
        "noise; .5 is a coin): hardly anybody gets the rare label. Log-odds on the same protocol reach {b.ours:.2f}.",
        "anonml-5",
        {"a": ("oulad, a: three features", "vote, cut at one half", 4.0),
         "b": ("oulad, ours", "log-odds, joints by rule", 4.0)},
    ),
    (
        "**An epsilon for each weight is no epsilon for a person.** Log 16 by weight and pass, at which digits are "
        "learned to {a.ours:.2f} ({a.ceiling:.2f} without noise), adds up to {a.epsilon:,.0f} for the person: no "
        "protection at all. What protects whole people is one update, hidden as a whole, with few weights.",
        "draw-discard-2",
        {"a": ("epsilon, gradients summed", "log 16 by weight and pass", None)},
    ),
    (
        "**Hiding a person among 50,000 weights leaves nothing to learn.** Items ranked with noise by weight score "
        "{a.ours:.2f} (NDCG; by chance {b.ours:.2f}, by an item's tag alone {c.ours:.2f}).",
        "draw-discard-ranking",
        {"a": ("NDCG", "log 32 by weight", None), "b": ("NDCG", "by chance", None),
         "c": ("NDCG", "by an item's tag", None)},
    ),
    (
        "**A cache that guesses needs thousands of questions.** After a hundred overlapping counts it has cost "
        "{a.ours:.2g}, reusing exact answers {b.ours:.2g}; after 20,000 it is {c.ours:.2g} against {d.ours:.2g}. Where "
        "the budget counts in rho, Gaussian noise with exact reuse is cheaper than either ({e.ours:.2g}).",
        "smartcache-long",
        {"a": ("avocado", "smart", 100.0), "b": ("avocado", "exact", 100.0), "c": ("avocado", "smart", 20_000.0),
         "d": ("avocado", "exact", 20_000.0), "e": ("avocado", "exact + Gaussian", 20_000.0)},
    ),
    (
        "**Made-up rows alone are wrong without saying so.** {a_percent} of the answers about avocado prices and "
        "{b_percent} of those about a bank's calls lie farther off than they may; with noise {c_percent} do.",
        "smartcache-table-10-1",
        {"a": ("share off by more than allowed", "synthetic only", "avocado"),
         "b": ("share off by more than allowed", "synthetic only", "bank"),
         "c": ("share off by more than allowed", "exact", "avocado")},
    ),
    (
        "**Validation that ignores the noise lets bad models pass.** At the worst target, {a_percent} of the models "
        "without statistics and {b_percent} with statistics but without the correction for noise pass and miss "
        "(rides, epsilon .05, eta .05); as built {c_percent}.",
        "sage-table-2",
        {"a": ("taxi, epsilon 0.05: of all trials, at the worst target", "no SLA", 0.05),
         "b": ("taxi, epsilon 0.05: of all trials, at the worst target", "UC DP SLA", 0.05),
         "c": ("taxi, epsilon 0.05: of all trials, at the worst target", "Sage SLA", 0.05)},
    ),
)  # fmt: skip


def failures(kept: Kept) -> Iterator[str]:
    """Yield each, with the figures that show it."""
    told = [*_told(kept)]
    if told:
        yield "\n## What does not, and why\n"
        yield from (f"- {words} [More](#{name}){quick}" for words, name, quick in told)
        yield ""


def in_short(kept: Kept) -> Iterator[str]:
    """Yield each in its first sentence."""
    told = [*_told(kept)]
    if told:
        yield "\n## What does not work\n"
        yield from (f"- [{words.partition('.**')[0].removeprefix('**')}](#{name})" for words, name, _ in told)
        yield "\n[Why, with the figures](#what-does-not-and-why)\n"


def _told(kept: Kept) -> Iterator[tuple[str, str, str]]:
    """Each in words, with the experiment that shows it, and whether that was a quick run."""
    for words, name, places in FAILURES:
        if name in kept:
            rows = {key: one(kept[name], *place) for key, place in places.items()}
            percents = {f"{key}_percent": f"{100 * row.ours:.3g} %" for key, row in rows.items() if row is not None}
            if None not in rows.values():
                yield words.format(**rows, **percents), name, " (a quick run)" if kept[name].quick else ""

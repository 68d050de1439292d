"""Documents of ensembles that are asked of two tables of people, and their AUC on held-out people.

The thresholds, groups and subsets given here are what somebody who knows such data would write down before asking;
where a document gives none, they are found privately inside the same epsilon, or follow from public rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from papers.datasets import People
from thebes.data.rows import Rows
from thebes.simulation.world import simulate


def paper(people: People, epsilon: float, **more: Any) -> dict[str, Any]:
    """The paper's ensemble: medians found privately, one feature and the label in each of two packets."""
    asked = {"method": "vote", "subset_size": 1, "subsets": 2, "partitions": 20, **more}
    grouped = {"groups": groups(people, epsilon, fine=True)} if people.name == "adult" else {}
    return document(people, epsilon, **{**grouped, **asked})


def automatic(people: People, epsilon: float) -> dict[str, Any]:
    """Log-odds of every feature, in joints that follow from epsilon and the features' sizes."""
    grouped = {"groups": groups(people, epsilon, fine=True)} if people.name == "adult" else {}
    return document(people, epsilon, method="odds", bins=bins(people, epsilon), **grouped)


def scouted(people: People, epsilon: float, share: float = 0.2) -> dict[str, Any]:
    """Log-odds of single features: scouts measure privately which of them to ask about and which bins to merge."""
    return {**automatic(people, epsilon), "scouting_share": share}


def cut_by_hand(people: People, epsilon: float) -> dict[str, Any]:
    """Log-odds of every feature, bins and groups by hand; what is asked about together follows from public rule."""
    return {field: value for field, value in joint(people, epsilon).items() if field != "feature_subsets"}


def joint(people: People, epsilon: float) -> dict[str, Any]:
    """Log-odds of small joints of features, chosen by hand."""
    return document(
        people,
        epsilon,
        method="odds",
        bins=bins(people, epsilon, for_joints=True),
        groups=groups(people, epsilon),
        feature_subsets=subsets(people, epsilon),
    )


def one_by_one(people: People, epsilon: float) -> dict[str, Any]:
    """The features of the joints by hand, asked about one by one: what of their strength is which, and what is how."""
    by_hand = joint(people, epsilon)
    return {**by_hand, "feature_subsets": [[feature] for subset in by_hand["feature_subsets"] for feature in subset]}


def document(people: People, epsilon: float, **more: Any) -> dict[str, Any]:
    return {
        "type": "ensemble",
        "epsilon": epsilon,
        "min_count": 1000,
        "featurizer": f"SELECT {', '.join(people.bounds)} FROM p.t",  # noqa: S608
        "label": people.label,
        "bounds": people.bounds,
        **more,
    }


# --- public knowledge ---------------------------------------------------------------------------------------


def bins(people: People, epsilon: float, *, for_joints: bool = False) -> dict[str, list[float]]:
    if people.name == "oulad":
        if epsilon < 2 and for_joints:
            return {"attempts": [1], "credits": [61], "registered": [-60], "score": [60], "submitted": [1]}
        return {
            "attempts": [1],
            "credits": [61, 91],
            "registered": [-100, -30],
            "score": [1, 60, 75],
            "submitted": [1, 2],
        }
    coarse: dict[str, list[float]] = {
        "age": [34.5], "education": [12.5], "gain": [5000], "loss": [1500], "hours": [42]
    }  # fmt: skip
    fine: dict[str, list[float]] = {
        "age": [25, 30, 35, 45, 60],
        "education": [9, 10, 13, 14],
        "gain": [1, 3000, 5000, 7000],
        "loss": [1, 1500, 2000],
        "hours": [35, 41, 50],
    }
    if not for_joints:
        return fine if epsilon >= 2 else coarse
    education = fine["education"] if epsilon >= 4 else [9.0, 13.0] if epsilon >= 2 else coarse["education"]
    gain = fine["gain"] if epsilon >= 2 else coarse["gain"]
    return {"age": [27, 35], "education": education, "gain": gain, "loss": fine["loss"], "hours": coarse["hours"]}


def groups(people: People, epsilon: float, *, fine: bool = False) -> dict[str, list[list[Any]]]:
    values: dict[str, Any] = {column: bound.get("values") for column, bound in people.bounds.items()}
    if people.name == "oulad":
        modules = ["BBB", "EEE"], ["DDD", "FFF"], ["CCC"]
        return {
            "module": _parted(values["module"], *modules)
            if epsilon >= 2
            else _parted(values["module"], ["CCC", "DDD", "FFF"]),
            "education": _parted(values["education"], values["education"][:2]),
            "deprivation": _parted(values["deprivation"], values["deprivation"][:5]),
        }
    country = {"country": _parted(values["country"], ["United-States"])}
    if fine:
        return country
    white_collar = ["Exec-managerial", "Prof-specialty"], ["Tech-support", "Protective-serv", "Sales"]
    manual = ["Craft-repair", "Transport-moving", "Adm-clerical"]
    occupations = (*white_collar, manual) if epsilon >= 2 else (white_collar[0] + white_collar[1],)
    return {
        **country,
        "married": _parted(values["married"], ["Married-civ-spouse", "Married-AF-spouse"]),
        "occupation": _parted(values["occupation"], *occupations),
    }


def _parted(values: Sequence[Any], *groups: Sequence[Any]) -> list[list[Any]]:
    named = {value for group in groups for value in group}
    return [*(list(group) for group in groups), [value for value in values if value not in named]]


def subsets(people: People, epsilon: float) -> list[list[str]]:
    if people.name == "oulad":
        if epsilon < 2 or epsilon == 4:
            return [["module"], ["score"], ["credits"]]
        if epsilon < 4:
            return [["module"], ["score"], ["credits", "submitted"], ["education"], ["attempts"], ["deprivation"]]
        return [["module", "score"], ["credits", "submitted"], ["education", "attempts", "deprivation"]]
    if epsilon < 2:
        return [["married", "education"], ["gain", "age"], ["occupation", "hours"]]
    return [["married", "education", "hours"], ["gain", "age"], ["occupation"], *([["loss"]] if epsilon >= 4 else [])]


# --- what comes out -----------------------------------------------------------------------------------------


def released(document: dict[str, Any], people: People, seed: int) -> Any:
    """One simulated release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer people than min_count
        return simulate(document, people.train, seed=seed)


def auc(people: People, model: Any) -> float:
    """On the test set, of the label's second value."""
    return auc_of(people, model.predict_proba(people.test)[:, 1])


def aucs(document: dict[str, Any], people: People, seeds: Iterable[int] = (0, 1, 2)) -> list[float]:
    return [auc(people, released(document, people, seed).model) for seed in seeds]


def as_printed(people: People, release: Any) -> float:
    """AUC of equation 2 to the letter: the same members, their labels cut at one half instead of the base rate."""
    rows = Rows.one_each({feature: people.test[feature] for feature in people.features})
    members = release.model.members
    votes = sum(member.weight * (member.table[member.cells.places(rows), 1] >= 0.5) for member in members)
    return auc_of(people, votes)


def auc_of(people: People, score: Any) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(people.test[people.label] == people.bounds[people.label]["values"][1], score))


# --- the paper's ensemble, with and without noise -------------------------------------------------------------


def vote(people: People, epsilon: float, *, size: int, partitions: int, **more: Any) -> dict[str, Any]:
    """The paper's ensemble with subsets of so many features, categories of many values bucketed as in the paper: two
    packets from each peer, logistic regressions weighted by f1. Thresholds are found privately."""
    shape = {"subset_size": size, "subsets": 2, "partitions": partitions, "groups": groups(people, 1.0)}
    return document(people, epsilon, **{"method": "vote", **shape, **more})


def without_noise(people: People, asked: dict[str, Any], *, pieces: int = 2) -> dict[str, Any]:
    """The same with every histogram known precisely and ranges cut at true quantiles: what there is to be reached.
    This is not private, and its release says so."""
    return {**asked, "perturbation": "none", "bins": quantiles(people, pieces)}


def quantiles(people: People, pieces: int) -> dict[str, list[float]]:
    """Find where so many pieces of equal size would end, from the data themselves; where most values are the least one,
    at least above that."""
    found = {}
    for column, bound in people.bounds.items():
        if bound["type"] != "range":
            continue
        values = np.asarray(people.train[column], dtype=np.float64)
        inside = values[(values > bound["low"]) & (values < bound["high"])]
        ends = np.quantile(values, np.linspace(0, 1, pieces + 1)[1:-1])
        cuts = sorted({float(end) for end in ends if bound["low"] < end < bound["high"]})
        found[column] = cuts or [float(inside.min())]
    return found


def about(people: People) -> str:
    """Say in words which data these are."""
    if people.made_up:
        return f"made-up people with the columns of {NAMES[people.name]}"
    return f"{NAMES[people.name]}: {len(people.train[people.label]):,} people to learn from"


NAMES = {"adult": "Adult (census of 1994)", "oulad": "OULAD (students who may withdraw from a course)"}
COURSES = (
    "The paper's two online courses are not public; OULAD, students who may withdraw from a course after its sixth "
    "week, stands in their place."
)
PERSON = (
    "Epsilon is what one person pays in all for both packets. The paper's total (equation 6) is the largest over the "
    "features, of which each also answers about its median; here people of their own do that."
)

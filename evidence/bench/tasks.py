"""Whole tasks from document to release: a million simulated contributors, and what the learning kinds reach.

Seconds stand beside those of plain numpy on the same columns without any privacy; accuracy beside floors and goals.
Each large task runs in its own process, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

PEOPLE = 1_000_000
GOAL_SECONDS = {"bounded_split": 5, "bounded_privunit": 5, "median": 2, "mean": 2}
GOAL_BYTES = 1_000_000_000

_RANGES = {f"x{i}": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0} for i in range(3)}
_KIND = {"kind": {"type": "set", "values": ["a", "b", "c"], "default": "a"}}
_AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
_BOUNDED = {
    "type": "bounded",
    "epsilon": 4.0,
    "featurizer": "SELECT x0, x1, x2, kind FROM p.t",
    "bounds": {**_RANGES, **_KIND},
}
_BASIC = {"type": "basic", "epsilon": 1.0, "featurizer": "SELECT age FROM p.t", "bounds": _AGE}
LARGE: dict[str, dict[str, Any]] = {
    "bounded_split": {**_BOUNDED, "mechanism": "split"},
    "bounded_privunit": {**_BOUNDED, "mechanism": "privunit"},
    "median": {**_BASIC, "aggregator": "median"},
    "mean": {**_BASIC, "aggregator": "mean"},
}

#: data set -> what is asked of it: (kind, model, {epsilon: (floor, goal)})
SMALL: dict[str, list[tuple[str, str, dict[int, tuple[float | None, float | None]]]]] = {
    "wine": [
        ("integrated", "GaussianNB", {8: (0.80, 0.90), 32: (0.917, 0.95)}),
        ("integrated", "LogisticRegression", {4: (None, 0.92), 8: (0.85, 0.95), 32: (0.94, None)}),
        ("bounded", "logistic", {8: (0.75, 0.86), 16: (None, 0.95), 32: (0.92, None)}),
        ("gradient", "linear", {8: (0.75, 0.90)}),
    ],
    "cancer": [
        ("integrated", "GaussianNB", {1: (None, 0.87), 4: (0.80, None), 32: (0.90, 0.93)}),
        ("integrated", "LogisticRegression", {1: (0.88, 0.92), 4: (0.93, 0.955), 32: (0.95, None)}),
        ("bounded", "logistic", {8: (0.78, 0.89), 16: (None, 0.935), 32: (0.90, None)}),
        ("gradient", "linear", {8: (0.75, 0.88)}),
    ],
    "diabetes": [
        ("integrated", "LinearRegression", {1: (0.0, 0.35), 4: (0.25, None), 8: (0.42, 0.46), 32: (0.45, None)}),
        ("bounded", "linear", {8: (0.20, 0.34), 32: (0.40, None)}),
        ("gradient", "linear", {8: (0.15, 0.36)}),
    ],
    "housing": [
        ("integrated", "LinearRegression", {1: (0.60, 0.665), 8: (0.64, None)}),
        ("bounded", "linear", {4: (None, 0.50), 8: (0.50, 0.61), 32: (0.58, None)}),
        ("gradient", "linear", {8: (0.35, 0.56)}),
    ],
}
SEEDS = 2


def run() -> dict[str, Any]:
    """Seconds, memory and ratios of the large tasks; accuracy of the small ones."""
    large = {}
    for name in LARGE:
        done = subprocess.run(
            [sys.executable, "-m", "evidence.bench.tasks", name],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        large[name] = json.loads(done.stdout)
    return {"people": PEOPLE, **large, "accuracy": {name: _accuracy(name) for name in SMALL}}


# --- a million people -------------------------------------------------------------------------------------


def _large(name: str) -> dict[str, Any]:
    draw = np.random.default_rng(0)
    document = LARGE[name]
    if document["type"] == "basic":
        table: dict[str, Any] = {"age": np.clip(draw.normal(45, 18, PEOPLE), 0, 100)}
    else:
        table = {f"x{i}": draw.normal(size=PEOPLE) for i in range(3)}
        table["kind"] = np.array(["a", "b", "c"])[draw.integers(0, 3, PEOPLE)]
    import thebes

    thebes.simulate(document, {c: v[:1000] for c, v in table.items()})  # loading is not measured
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    plain = min(_timed(lambda: _plain(name, table)) for _ in range(3))
    seconds = _timed(lambda: thebes.simulate(document, table))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "seconds": round(seconds, 2),
        "goal_seconds": GOAL_SECONDS[name],
        "numpy_seconds": round(plain, 4),
        "ratio": round(seconds / plain, 1),
        "peak_megabytes": round(peak / 1e6),
        "of_these_the_task": round((peak - before) / 1e6),
        "goal_met": seconds <= GOAL_SECONDS[name] and peak <= GOAL_BYTES,
    }


def _plain(name: str, table: dict[str, Any]) -> Any:
    """Do what an analyst without any privacy would do with the same columns."""
    if name == "median":
        return np.median(table["age"])
    if name == "mean":
        return table["age"].mean()
    rows = np.column_stack([table["x0"], table["x1"], table["x2"], *(table["kind"] == k for k in "abc")])
    return rows.T @ rows


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# --- accuracy ---------------------------------------------------------------------------------------------


def _accuracy(dataset: str) -> dict[str, Any]:
    from papers import datasets

    data = getattr(datasets, dataset)()
    if data is None:
        return {"skipped": "THEBES_DATA holds no California housing"}
    found: dict[str, Any] = {}
    for kind, model, cells in SMALL[dataset]:
        for epsilon, (floor, goal) in cells.items():
            score = _score(data, kind, model, epsilon)
            said = [f"{score:.3f}"]
            for word, target in (("floor", floor), ("goal", goal)):
                if target is not None:
                    said.append(f"{word} {target:g} {'met' if score >= target else 'MISSED'}")
            found.setdefault(f"{kind} {model}", {})[f"epsilon {epsilon}"] = ", ".join(said)
    return found


def _score(data: Any, kind: str, model: str, epsilon: int) -> float:
    numeric = data.name in ("diabetes", "housing")
    scores = []
    for seed in range(SEEDS):
        folds = (KFold if numeric else StratifiedKFold)(5, shuffle=True, random_state=seed)
        for fold, (train, test) in enumerate(folds.split(data.X, data.y)):
            guess, truth = _fold(data, kind, model, epsilon, train, test, 10 * seed + fold), data.y[test]
            scores.append(1 - np.mean((guess - truth) ** 2) / np.var(truth) if numeric else np.mean(guess == truth))
    return float(np.mean(scores))


def _fold(data: Any, kind: str, model: str, epsilon: int, train: Any, test: Any, seed: int) -> Any:
    import thebes
    from thebes.tasks.bounded.release import RowsRelease

    names = [f"x{i}" for i in range(data.X.shape[1])]
    numeric = data.name in ("diabetes", "housing")
    inputs, target, back = data.X, data.y, None
    document: dict[str, Any] = {
        "type": kind,
        "epsilon": epsilon,
        "featurizer": f"SELECT {', '.join(names)}, y FROM p.t",
    }
    ends = [data.bounds[i] for i in range(len(names))]
    if kind == "gradient":
        low, high = np.array(ends).T
        inputs = np.clip(2 * (inputs - low) / (high - low) - 1, -1, 1)
        if numeric:
            least, most = data.bounds["y"]
            target, back = 2 * (target - least) / (most - least) - 1, lambda g: (g + 1) / 2 * (most - least) + least
        text, loss = _network(len(names), 1 if numeric else len(set(data.y.tolist())))
        document |= {"inputs": names, "outputs": ["y"], "model": text, "loss": loss, "rounds": 16}
    else:
        bounds = {n: {"type": "range", "low": lo, "high": hi} for n, (lo, hi) in zip(names, ends, strict=True)}
        bounds["y"] = (
            {"type": "range", "low": data.bounds["y"][0], "high": data.bounds["y"][1]}
            if numeric
            else {"type": "set", "values": sorted(set(data.y.tolist()))}
        )
        if kind == "bounded":
            for bound in bounds.values():
                ranged = bound["type"] == "range"
                bound["default"] = (bound["low"] + bound["high"]) / 2 if ranged else bound["values"][0]
            document |= {"mechanism": "privunit-short"}
        else:
            document |= {"delta": 1e-5, "model": model, "inputs": names, "output": "y"}
        document["bounds"] = bounds
    table = {**{n: inputs[train, i] for i, n in enumerate(names)}, "y": target[train]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        release = thebes.simulate(document, table, seed=seed)
    fitted = release.fit(model, output="y") if isinstance(release, RowsRelease) else release.model
    guess = fitted.predict(inputs[test])
    return guess if back is None else back(guess)


def _network(columns: int, outputs: int) -> tuple[str, str]:
    import torch

    from thebes.torch import encode

    module = torch.nn.Linear(columns, outputs)
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()
    return encode(module, torch.nn.MSELoss() if outputs == 1 else torch.nn.CrossEntropyLoss())


if __name__ == "__main__":
    print(json.dumps(_large(sys.argv[1])))

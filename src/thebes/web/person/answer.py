"""An answer made ready to be drawn. It is the coordinator's word: whatever does not fit is said to be unreadable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from thebes.privacy.faults import ThebesError
from thebes.privacy.figures import spaced
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json

MOST_BARS = 40
MOST_ROWS = 50


def shown(result: Mapping[str, Any]) -> dict[str, Any]:
    """`form` says how to draw it: number, bars, model, ensemble, rows, network, lasting, none or unreadable."""
    try:
        release = release_from_json(result)
        told = _drawn(release)
        return {**told, "certificate": release.certificate.as_json()}
    except (ThebesError, ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError, OverflowError):
        return {"form": "unreadable", "certificate": None}


def _drawn(release: Release) -> dict[str, Any]:
    if release.value is None:
        return {"form": "none", "why": str(release.extra.get("explanation", "nothing could be released"))}
    if release.form == "network":
        return {"form": "network", "weights": len(release.extra["gradient"]), "inputs": list(release.extra["inputs"])}
    if release.form in ("draw-discard", "draw-discard-network"):
        return _lasting(release)
    if release.form == "ensemble":
        return _ensemble(release)
    if release.form == "model":
        return _model(release)
    if release.form == "rows":
        return _rows(release)
    if isinstance(release.value, Mapping):
        return _bars(release)
    return _number(release)


def _number(release: Release) -> dict[str, Any]:
    value, bar = _finite(release.value), _bar(release)
    if bar is not None:
        ends = [float(bar[end]) for end in ("low", "high")]
        bar = {**bar, "low": ends[0], "high": ends[1]} if all(map(math.isfinite, ends)) else None
    bounds = next(iter((release.certificate.bounds or {}).values()), None)
    declared = (bounds.get("low"), bounds.get("high")) if isinstance(bounds, Mapping) else (None, None)
    known = [end if isinstance(end, (int, float)) and math.isfinite(end) else None for end in declared]
    note = str(release.extra.get("interval_note", ""))
    return {"form": "number", "value": value, "bar": bar, "least": known[0], "most": known[1], "note": note}


def _bars(release: Release) -> dict[str, Any]:
    values = {str(key): _finite(number) for key, number in release.value.items()}
    kept = dict(list(values.items())[:MOST_BARS])
    bar = _bar(release)
    low, high = ({str(k): _finite(v) for k, v in bar[end].items()} if bar else {} for end in ("low", "high"))
    return {"form": "bars", "values": kept, "low": low, "high": high, "hidden": len(values) - len(kept), "bar": bar}


def _bar(release: Release) -> dict[str, Any] | None:
    """The error bar as JSON has it: level, low, high."""
    told = release.as_json()["interval"]
    return None if told is None else {**told, "level": _finite(told["level"])}


def _model(release: Any) -> dict[str, Any]:
    model, inputs = release.model, [str(name) for name in release.extra["inputs"]]
    labels = [str(label) for label in getattr(model, "classes_", ())]
    columns: dict[str, list[float]] = {}
    for name, words in (("coef_", "coefficient"), ("theta_", "mean"), ("var_", "variance")):
        found = getattr(model, name, None)
        if found is None:
            continue
        table = np.atleast_2d(np.asarray(found, dtype=float))
        if table.shape[1] != len(inputs):
            continue
        for place, line in enumerate(table):
            of = f" of {labels[place]}" if len(table) == len(labels) else f" for {labels[-1]}" if labels else ""
            columns[words + of] = line.tolist()
    start = getattr(model, "intercept_", None)
    return {
        "form": "model",
        "kind": type(model).__name__,
        "output": str(release.extra["output"]),
        "inputs": inputs,
        "columns": columns,
        "intercept": None if start is None else np.atleast_1d(np.asarray(start, dtype=float)).tolist(),
    }


def _ensemble(release: Release) -> dict[str, Any]:
    """Tell how many vote, and in per cent how frequent each label is among those who took part."""
    told = release.extra["base_rate"]
    kept = list(told["value"])[:MOST_BARS]
    bar = told["interval"]
    shares, low, high = (
        {str(label): 100 * _finite(of[label]) for label in kept} for of in (told["value"], bar["low"], bar["high"])
    )
    return {
        "form": "ensemble",
        "members": len(release.value["members"]),
        "values": shares,
        "low": low,
        "high": high,
        "hidden": len(told["value"]) - len(kept),
        "level": _finite(bar["level"]),
    }


def _lasting(release: Release) -> dict[str, Any]:
    """A model as it stands: its largest weights where they have names, else how many there are."""
    document, given = release.extra["document"], release.value["weights"]
    weights = {str(name): _finite(weight) for name, weight in given.items()} if isinstance(given, Mapping) else {}
    largest = dict(sorted(weights.items(), key=lambda named: -abs(named[1]))[:MOST_BARS])
    return {
        "form": "lasting",
        "family": str(document.get("family", "network")),
        "output": str(document["output"]),
        "inputs": [str(name) for name in document["inputs"]],
        "updates": int(_finite(release.extra["updates"])),
        "values": {name: weight for name, weight in weights.items() if name in largest},
        "hidden": len(weights) - len(largest),
    }


def _rows(release: Any) -> dict[str, Any]:
    """Tell what the perturbed rows say together, freed of the noise; single rows say next to nothing."""
    means = []
    for column in release.document.gives:
        if column not in release.frequencies:
            value, bar = release.mean(column)
            told = {"value": value, "low": bar.low, "high": bar.high, "level": bar.level}
            means.append({"column": column, **{name: _finite(number) for name, number in told.items()}})
    rows = release.rows
    return {
        "form": "rows",
        "count": len(rows),
        "means": means,
        "shares": {column: _shares(release, column) for column in release.frequencies},
        "columns": [str(column) for column in rows.columns],
        "rows": rows.head(MOST_ROWS).to_dict(orient="records"),
    }


def _shares(release: Any, column: str) -> dict[str, Any]:
    """Tell how frequent each value of a column is, in per cent, with the error bars that the requestor is shown."""
    names = [_word(key) for key in release.frequencies[column]][:MOST_BARS]
    bar = release.frequency_interval(column)

    def percents(shares: Any) -> dict[str, float]:
        return {name: 100 * _finite(share) for name, share in zip(names, shares, strict=False)}

    told: dict[str, Any] = {"values": percents(release.frequencies[column].values()), "low": None, "high": None}
    if bar is None:
        return {**told, "level": None}
    return {**told, "low": percents(bar.low), "high": percents(bar.high), "level": _finite(bar.level)}


def _finite(number: Any) -> float:
    """A number that can be drawn, or ValueError."""
    found = float(number)
    if not math.isfinite(found):
        raise ValueError
    return found


def _word(key: Any) -> str:
    """A declared value as people write it."""
    return ("yes" if key else "no") if isinstance(key, bool) else spaced(key)

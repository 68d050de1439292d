"""A trained model: what can be read off it, by its family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, Spans
from thebes.tasks.document import PeopleDocument
from thebes.tasks.release import Release


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    model: Any = release.model
    kind = type(model).__name__
    if kind == "GaussianNB":
        return _classes(release, model)
    if hasattr(model, "features_"):
        return _forest(release, model)
    if hasattr(model, "coef_"):
        return _coefficients(release, model)
    return [Section("Model", f"A {kind}. Download it to use it.")]


def _classes(release: Release, model: Any) -> list[Section]:
    inputs, output = release.extra["inputs"], release.extra["output"]
    names = [f"{output} = {label}" for label in model.classes_.tolist()]
    sections = [
        Section(
            "How frequent each class is",
            picture=Bars(
                dict(zip(names[:MOST_DRAWN], (100 * model.class_prior_).tolist(), strict=False)),
                title="Share of each class in per cent",
                unit=" %",
            ),
        )
    ]
    spread = np.sqrt(model.var_)
    asked = [(j, column) for j, column in enumerate(inputs) if model.asked_[j]]
    for j, column in asked[:MOST_DRAWN]:
        rows = [(n, float(m), float(m - s), float(m + s)) for n, m, s in zip(names, model.theta_[:, j], spread[:, j])]  # noqa: B905
        sections.append(
            Section(
                column,
                "The mean in each class; the line reaches one standard deviation of people to either side. It is not "
                "an error bar: this model has none.",
                Spans(rows[:MOST_DRAWN], title=f"Mean and spread of {column} in each class"),
            )
        )
    head, rows_ = table(release)
    return [*sections, Section("All numbers", table=AnswerTable.of(head, rows_), folded=True)]


def _coefficients(release: Release, model: Any) -> list[Section]:
    output = release.extra["output"]
    head, rows = table(release)
    sections = []
    weights = np.atleast_2d(model.coef_)
    labels = [None] if len(weights) == 1 else model.classes_.tolist()
    for label, line in zip(labels, weights, strict=False):
        of = "" if label is None else f" of {output} = {label}"
        drawn = dict(zip(release.extra["inputs"][:MOST_DRAWN], line.tolist(), strict=False))
        words = (
            f"How much {output} changes when an input grows by one of its own units. "
            if hasattr(model, "target_range_")
            else "How much the log-odds change when an input grows by one of its own units. "
        )
        picture = Bars(drawn, title=f"Coefficients{of}")
        sections.append(Section(f"Coefficients{of}", f"{words}No error bar is known for them.", picture))
    return [*sections, Section("All numbers", table=AnswerTable.of(head, rows), folded=False)]


def _forest(release: Release, model: Any) -> list[Section]:
    trees, inner = model.features_.shape
    used = np.bincount(model.features_.ravel(), minlength=len(release.extra["inputs"]))
    share = dict(zip(release.extra["inputs"][:MOST_DRAWN], (100 * used / used.sum()).tolist(), strict=False))
    words = (
        f"{trees} trees of depth {int(math.log2(inner + 1))} with {trees * (inner + 1)} leaves. Where a tree splits "
        "was drawn without looking at anybody; only the leaves were learned. This says what was asked, not what counts."
    )
    head, rows = table(release)
    picture = Bars(share, title="How often each input is split on, in per cent", unit=" %")
    title = "Classes, over all leaves" if hasattr(model, "classes_") else "What leaves say"
    return [Section("Forest", words, picture), Section(title, table=AnswerTable.of(head, rows))]


def table(release: Release) -> Cells:
    model: Any = release.model
    inputs = release.extra["inputs"]
    if type(model).__name__ == "GaussianNB":
        deviation = np.sqrt(model.var_)
        rows = [
            (str(label), float(model.class_prior_[k]), column, float(model.theta_[k, j]), float(deviation[k, j]))
            for k, label in enumerate(model.classes_.tolist())
            for j, column in enumerate(inputs)
            if model.asked_[j]
        ]
        return ("class", "share", "input", "mean", "standard deviation"), rows
    if hasattr(model, "features_") and hasattr(model, "target_range_"):
        low, high = model.target_range_
        said = low + (model.leaves_ + 1) / 2 * (high - low)
        ends = (("lowest", said.min()), ("mean", said.mean()), ("highest", said.max()))
        return ("leaf", "says"), [(name, float(number)) for name, number in ends]
    if hasattr(model, "features_"):
        share = model.leaves_.mean(axis=(0, 1))
        return ("class", "mean share in a leaf"), [
            (str(label), float(s)) for label, s in zip(model.classes_.tolist(), share, strict=True)
        ]
    weights, intercepts = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    labels = [""] if len(weights) == 1 else [str(label) for label in model.classes_.tolist()]
    lines: list[tuple[Any, ...]] = []
    for label, line, constant in zip(labels, weights, intercepts, strict=True):
        lines += [(label, name, float(w)) for name, w in zip(inputs, line, strict=True)]
        lines.append((label, "(constant)", float(constant)))
    if len(weights) == 1:
        return ("input", "coefficient"), [each[1:] for each in lines]
    return ("class", "input", "coefficient"), lines

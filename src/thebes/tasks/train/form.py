"""The form of training over sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from thebes.tasks import formulas
from thebes.tasks.field_meanings import OF_STEPS
from thebes.tasks.form import HELPED, WHERE, Form, FormState, Hint
from thebes.tasks.train.descent import FAMILIES

_UPDATES = {"adam": "adam: each weight at its own speed", "newton": "newton: by the curvature, for few inputs"}


def predicted(model: str) -> Hint:
    """Ask for the column that the chosen model can learn to tell; `model` is the field that says which it is."""

    def columns(composed: FormState) -> tuple[str, ...]:
        keys = () if composed.get(model) in ("LinearRegression", "GroupMeans") else composed.keys
        return (*keys, *composed.numbers)

    return Hint(label="Predicted column", columns=columns, empty="choose one")


def inputs(output: str) -> Hint:
    """Ask for the columns that another one (`output`) is predicted from."""
    return Hint(label="Inputs", place="data", columns=lambda form: (*form.numbers, *form.keys), but=output, lines=2)


def _inputs(composed: FormState) -> tuple[str, ...]:
    network = composed.get("model") not in FAMILIES
    return (*composed.numbers, *composed.keys, *(composed.tensors if network else ()))


def _straight(composed: FormState) -> bool:
    return not composed.get("update")


_MEANINGS: Mapping[str, str] = {
    **OF_STEPS,
    "model": "LogisticRegression (two values of the output, or more), LinearRegression, or a network from "
    "thebes.torch.encode",
    "inputs": "columns with bounds or declared values; a range is scaled to [-1, 1], a set of m values becomes m - 1 "
    "columns, the last value being the reference",
    "output": "likewise",
    "reduce": "the gradients of one person's rows are averaged, or added up, before that is shortened",
    "rounds": "rounds at most; each is a phase",
    "local_steps": "steps that a site goes by itself in a round. 1: federated gradient descent; more: federated "
    "averaging",
    "momentum": "of the coordinator's steps",
    "update": "how a mean gradient moves the model: straight on without it, by adam, or by newton, on whose second "
    "derivatives half of the budget is spent; with one local step, without momentum",
    "ridge": "with newton: nothing counts as less steep; 0.001 where it is left out",
    "batch": "the chance with which each person takes part in a step; without it everybody does",
    "tolerance": "a round that moves the weights no further (L2) is the last one",
    "quality": "true: test the model on a tenth of the people at each site, in a phase more",
    "size_share": "of the budget, for how many people each site has",
    "loss_share": "of the budget, for the mean loss of every round",
    "loss_bound": "one person's loss counts as no more than this",
}

FORM = Form(
    rank=12,
    makes=lambda composed: formulas.names(composed.get("features")),
    fields={
        "model": Hint(first=FAMILIES[0], choices=lambda form: FAMILIES),
        "loss": Hint(
            help="of a network, from thebes.torch.encode", lines=3, when=lambda form: form.get("model") not in FAMILIES
        ),
        "output": predicted("model"),
        "rounds": Hint(help="they share the price", first="20"),
        "update": Hint(label="The model moves by", empty="straight on, perhaps with some of its speed", told=_UPDATES),
        "local_steps": Hint(
            label="Steps of a site in a round",
            when=lambda form: _straight(form) and form.get("noise") not in ("coordinator", "split"),
        ),
        "learning_rate": Hint(),
        "momentum": Hint(when=_straight),
        "ridge": Hint(
            label="At least as steep as", help="0.001 if empty", when=lambda form: form.get("update") == "newton"
        ),
        "clip": Hint(help="the longest gradient of one person; 1 if empty"),
        "batch": Hint(label="Share of people in a step", help="everybody if empty"),
        "loss_share": Hint(
            label="Share of the budget for the loss",
            help="without it the curve shows how far each round moved the weights",
        ),
        "tolerance": Hint(label="Stop when an update is smaller than", help="goes on to the end if empty"),
        "quality": Hint(
            label="Test the model",
            help="on a tenth of the people, whom a coin keeps out of it; it costs what one more round does",
        ),
        **HELPED,
        "features": formulas.FEATURES,
        "inputs": replace(inputs("output"), columns=_inputs),
        "where": WHERE,
        "reduce": Hint(label="Several rows of one person", help="mean: as one; sum: each counts", expert=True),
        "delta": Hint(help="such as 1e-6"),
        "min_sites": Hint(help="all that are asked, if empty"),
        "epsilon": Hint(help="what one person pays at each site that answers"),
    },
    meanings=_MEANINGS,
)

"""The certificate of a draw-discard task. It says what is proved against everybody, and, labelled as estimates, what
weaker adversaries would learn and what one contribution can move."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from thebes.privacy.certificate import Certificate
from thebes.privacy.distributions import beta_cdf
from thebes.privacy.promise import Adjacency
from thebes.tasks.document import bounds_as_json
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import facts, plan
from thebes.tasks.protocols import Setting

LATER = (100, 10_000)  #: updates of one instance after which an occasional onlooker is taken to look
_SMALL = 1e-8  #: the delta of that estimate, as in the seed
ESTIMATE = "estimate, not a guarantee; nothing is charged by it"


def certificate(
    document: DrawDiscardDocument,
    setting: Setting,
    contributors: int,
    filtering: dict[str, Any],
    notes: Sequence[str],
) -> Certificate:
    """The certificate of a release; `notes` are those that every certificate of such a task must hold."""
    made = plan(document)
    none = document.only_simulated is not None
    said = [*notes]
    if none:
        said.append("NOT PRIVATE: the gradients of this simulation were not perturbed at all.")
    if document.max_participations > 1:
        said.append(
            f"Contributions are counted, not contributors: one may have taken part {document.max_participations} times."
        )
    if not filtering["active"]:
        said.append("Outliers were not looked for: too few instances say nothing about what is usual.")
    if document.average == "predictions":
        said.append(
            "Every release holds all instances, each of which is what somebody sent: whoever reads releases as they "
            "come sees what the estimates call internal."
        )
    if document.anonymity == "none" and not setting.simulated:
        said.append("Contributors prove nothing about themselves: one machine may have been any share of them.")
    said.append("The spread says how much the instances differ; it is no error bar of the weights.")
    delta = 0.0 if made.hiding.pure else document.delta
    return Certificate(
        unit=setting.unit,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=document.epsilon,
        delta=delta,
        guarantee="none" if none else "approximate" if delta else "pure",
        mechanism=f"{made.hiding.name} on each owner's clipped gradient",
        parameters={**facts(document), "filter": filtering, "estimates": {} if none else estimates(document)},
        bounds=bounds_as_json(document.bounds),
        contributors=contributors,
        trust="none",
        notes=tuple(said),
        simulated=setting.simulated,
    )


def estimates(document: DrawDiscardDocument) -> dict[str, Any]:
    """Estimate what one participation is expected to tell adversaries who see less than the channel.

    internal: sees all instances, but not which one the update was made from: (k - 1) / k of epsilon / 2 (the seed's
    lemma 1, an expectation over the server's coins) if it cannot tell, and all of epsilon where it can. It mostly can:
    see `_found`. Whoever runs the server is no such adversary by any proof: that it does not note which one was drawn
    is its promise.

    opportunistic: sees one instance, as whoever asks does, T updates to it later, which this owner's is in (in the end
    with a chance of 1 / k, lemma 2): the noise of T updates, taken as normal with T times the variance, hides two
    gradients as far apart as clipping allows. That is lemma 3 with its distance put right (2 clip by weight,
    2 clip sqrt(p) for p weights) and its inequality solved as it stands. What an instance descends from becomes one
    update longer, on average, with every k updates of its lane.
    """
    made, k = plan(document), document.instances
    epsilon = float(made.epsilon)
    found: dict[str, Any] = {"says": ESTIMATE}
    if k > 1:
        unknown, told = (k - 1) / k * epsilon / 2, _found(k, made.weights)
        found["internal"] = {"expected_epsilon": unknown + told * (epsilon - unknown), "chance_to_know_which": told}
    found["opportunistic"] = {
        "delta": _SMALL,
        "chance_to_be_there": 1 / k,
        "updates_of_the_task_for_one_of_an_instance_about": each_of(document),
        "epsilon_after_updates_of_that_instance": {
            str(later): min(epsilon, _after(later, made.hiding.variance, made.hiding.distance)) for later in LATER
        },
    }
    return found


def each_of(document: DrawDiscardDocument) -> int:
    """About so many updates of the task are one of each instance."""
    return document.instances * len(document.rates)


def _found(instances: int, weights: int) -> float:
    """The chance, from above, that of all instances the one an update was made from lies nearest to it.

    From that one the update is its own noise away, from any other sqrt(k + 1) times as far (theorem 1), both lengths of
    `weights` numbers, taken as normal: one particular other is nearer with the chance that their F ratio says.
    """
    return float(beta_cdf(weights / 2, weights / 2, (instances + 1) / (instances + 2)))


def _after(updates: int, variance: float, distance: float) -> float:
    """The epsilon at which sqrt(updates * variance) = distance * sqrt(2 (ln(1 / (2 delta)) + epsilon)) / epsilon."""
    if not variance:  # so large an epsilon that the mechanism says next to everything
        return math.inf
    squared = updates * variance / distance**2
    return (1 + math.sqrt(1 + 2 * squared * math.log(1 / (2 * _SMALL)))) / squared

"""The course of a training, round by round, and what its certificate says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.tasks.train import trial
from thebes.tasks.train.plan import TrainingPlan

_PLACES = {"split": ", once at each of two servers in every round"}


@dataclass
class TrainingCourse:
    """The rounds that were concluded: how far each moved the weights, how well the model fitted where that was bought,
    and who was there. `why` is the last reason of each site that missed one."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)

    def note(self, told: Mapping[str, Any], answered: Sequence[str], missing: Mapping[str, str]) -> None:
        """One more round."""
        self.rounds.append({"round": len(self.rounds), **told, "sites": len(answered)})
        self.answered.update(answered)
        self.missed.update(missing.keys())
        self.why.update(missing)

    @property
    def coverage(self) -> dict[str, Any]:
        """The sites in the answer, in how many of its rounds, and those never there or not always, for which reason."""
        return {
            "answered": sorted(self.answered),
            "missing": {site: why for site, why in sorted(self.why.items()) if site not in self.answered},
            "rounds": {site: self.answered[site] for site in sorted(self.answered)},
            "missed": {
                site: {"rounds": self.missed[site], "why": self.why[site]}
                for site in sorted(self.missed)
                if site in self.answered
            },
        }

    def as_json(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "answered": self.answered, "missed": self.missed, "why": self.why}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> TrainingCourse:
        return cls(list(body["rounds"]), Counter(body["answered"]), Counter(body["missed"]), dict(body["why"]))


def certificate(
    plan: TrainingPlan,
    course: TrainingCourse,
    *,
    begun: int,
    unit: Unit,
    trust: str,
    simulated: bool,
    notes: Sequence[str],
    drawn_by: str | None,
    servers: Mapping[str, Any],
) -> Certificate:
    """The certificate of the weights after the rounds of `course`. What is promised is the document's (epsilon, delta),
    however early the rounds ended; what ledgers were charged stands beside it: for no more than the `begun` rounds, of
    which the last may have come to nothing although sites paid for it."""
    descent, run = plan.descent, len(course.rounds)
    said = list(notes)
    whose = " of its own" if descent.noise == "split" else ""
    said.append(f"How many people each site has was itself told with noise{whose}, within the same budget.")
    if descent.batch is not None:
        said.append("Each step was over a sample; its coins were tossed at the sites and told to nobody.")
    if descent.quality:
        said.append(
            "About a tenth of the people, by a coin, were kept out of the model, to test it; the test costs as much as "
            "one more round, and everybody is charged for it."
        )
    if run < descent.rounds:
        said.append(
            f"It ended after {run} of {descent.rounds} rounds; ledgers were charged for {begun} at most, or for all "
            "where they count in plain epsilons."
        )
    parameters: dict[str, Any] = {
        "rounds": run,
        **facts(plan),
        **servers,
        "reserved": {"rounds": descent.rounds, "epsilon": descent.epsilon, "delta": descent.delta},
        "charged": {
            "at_most": begun,
            "epsilon": min(descent.epsilon, plan.budget.spent(begun)),
            "delta": descent.delta,
        },
    }
    if descent.quality:
        parameters["scale_of_the_test"] = trial.scale(plan)
    if drawn_by is not None:
        parameters["drawn_by"] = drawn_by
    return Certificate(
        unit=unit,
        adjacency=Adjacency.ADD_REMOVE_ONE,
        epsilon=descent.epsilon,
        delta=descent.delta,
        guarantee="approximate",
        mechanism="gaussian noise on sums of clipped gradients" + _PLACES.get(descent.noise, ""),
        parameters=parameters,
        bounds=None,
        contributors=None,
        trust=trust,
        notes=tuple(said),
        simulated=simulated,
    )


def facts(plan: TrainingPlan) -> dict[str, Any]:
    """State what a certificate says about the noise."""
    descent, made = plan.descent, plan.budget
    first, later = plan.noises(buying=True), plan.noises(buying=False)
    assert first.size is not None  # noqa: S101
    said: dict[str, Any] = {
        "weights": plan.weights,
        "clip": descent.clip,
        "update": descent.rule.name,
        "local_steps": descent.local_steps,
        "noise": "gaussian",
        "scale": later.sums.scale * plan.sums.step,
        "scale_of_the_first_round": first.sums.scale * plan.sums.step,
        "scale_of_sizes": first.size.scale,
        "ratio": made.ratio,
        "shares_of_the_first_round": {
            "gradients": float(made.shares(buying=True).sums),
            "size": float(made.shares(buying=True).size),
            "loss": float(made.shares(buying=True).loss),
        },
    }
    if descent.batch is not None:
        said["batch"] = made.rate
    if later.curvature is not None:
        said["scale_of_curvature"] = later.curvature.scale * plan.curvature.step
    if later.loss is not None:
        said["scale_of_losses"] = later.loss.scale * plan.losses.step
        said["loss_bound"] = descent.loss_bound
    return said

"""AnonML, figure 3: which perturbation estimates a histogram best, by epsilon and by the number of categories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.anonml import PAPER
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from thebes.privacy import randomness
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.mechanisms.local.subset import SubsetSelection
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding

PEERS = 10_000
MECHANISMS: dict[str, type[CategoryMechanism]] = {
    "random response": RandomizedResponse,
    "RAPPOR": SymmetricUnaryEncoding,
    "(p, q)": AsymmetricUnaryEncoding,
    "subset selection": SubsetSelection,
}
PANELS: dict[str, list[tuple[int, float, float]]] = {
    "16 categories, by epsilon": [(16, epsilon, epsilon) for epsilon in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)],
    "epsilon 1, by categories": [(size, 1.0, size) for size in (2, 4, 8, 16, 32, 64)],
}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    repeats = 10 if quick else 100
    rows = [
        Row.over(
            [_error(mechanism(size, epsilon), repeats, seed) for seed in seeds],
            series=name,
            panel=panel,
            at=at,
            printed=None if mechanism is SubsetSelection else mechanism(size, epsilon).expected_error(PEERS) ** 0.5,
            ceiling=0.0,
            epsilon=epsilon,
        )
        for panel, points in PANELS.items()
        for name, mechanism in MECHANISMS.items()
        for size, epsilon, at in points
    ]
    notes = (
        "Printed is the paper's equation 4 worked out; the figure shows curves without numbers. Ours is the distance "
        "between estimated and true shares, simulated.",
        "Random response costs ln((m-1) p / (1-p)); by the printed ln(m p / (1-p)) it would add more noise than its "
        "epsilon asks for.",
        "Equation 4 is the root of the expected squared distance, which is what is simulated.",
        "Subset selection is not in the paper; by its formula it is never worse than the other three.",
    )
    return Found(rows=rows, data=f"none: {PEERS:,} made-up peers spread evenly over the categories", notes=notes)


def _error(mechanism: CategoryMechanism, repeats: int, seed: int) -> float:
    """The root of the mean squared distance between the estimated shares and the true ones."""
    source = randomness.seeded_for_simulation(seed)
    values = np.arange(PEERS) % mechanism.size
    true = np.bincount(values, minlength=mechanism.size) / PEERS
    found = [mechanism.estimate(mechanism.perturb(values, source)).value - true for _ in range(repeats)]
    return float(np.sqrt(np.mean(np.sum(np.square(found), axis=1))))


EXPERIMENT = Experiment(
    name="anonml-3",
    paper=PAPER,
    place="figure 3",
    shows="Random response is best for few categories or large epsilons, bitwise perturbation for the rest.",
    measure="distance (L2) between estimated and true shares",
    across="epsilon or categories",
    find=find,
    better="less",
    headline=Headline(panels=("by epsilon",), at=(0.5, 1.0, 2.0, 4.0), drawn=("*",), differs=1),
)

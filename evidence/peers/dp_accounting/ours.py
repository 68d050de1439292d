"""The same events, priced by Thebes: the least that any of its accountants proves. The noise
is continuous (2^30 steps), as theirs is."""

from typing import Any


def gaussians(given: Any, delta: float) -> Any:
    from thebes.privacy.accounting.report import total
    from thebes.privacy.events import GaussianEvent

    events = [GaussianEvent(given.noise * (40 + 0.1 * place)) for place in range(200)]
    return float(total(events, adjacency="add-remove-one", delta=delta, unit="person").epsilon)


def descent(given: Any, delta: float) -> Any:
    from thebes.privacy.accounting.report import total
    from thebes.privacy.events import PoissonGaussianEvent, Repeated

    events = Repeated(PoissonGaussianEvent(0.01, 1.1 * given.noise), 10_000)
    return float(total(events, adjacency="add-remove-one", delta=delta, unit="person").epsilon)


def mixed(given: Any, delta: float) -> Any:
    from thebes.privacy.accounting.report import total
    from thebes.privacy.events import GaussianEvent, LaplaceEvent, Repeated

    events = [LaplaceEvent(given.noise * (20 + 2 * place), 2**30) for place in range(200)]
    everything: list[Any] = [*events, Repeated(GaussianEvent(30 * given.noise), 10)]
    return float(total(everything, adjacency="add-remove-one", delta=delta, unit="person").epsilon)


def laplace_alike(given: Any, delta: float) -> Any:
    from thebes.privacy.accounting.report import total
    from thebes.privacy.events import LaplaceEvent, Repeated

    events = Repeated(LaplaceEvent(10 * given.noise, 2**30), 50)
    return float(total(events, adjacency="add-remove-one", delta=delta, unit="person").epsilon)

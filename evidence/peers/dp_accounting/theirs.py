"""dp-accounting used directly."""

from typing import Any


def gaussians(given: Any, delta: float) -> Any:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for place in range(200):
        accountant.compose(dp_accounting.GaussianDpEvent(given.noise * (40 + 0.1 * place)))
    return accountant.get_epsilon(delta)


def descent(given: Any, delta: float) -> Any:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1 * given.noise))
    accountant.compose(step, 10_000)
    return accountant.get_epsilon(delta)


def mixed(given: Any, delta: float) -> Any:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for place in range(200):
        accountant.compose(dp_accounting.LaplaceDpEvent(given.noise * (20 + 2 * place)))
    accountant.compose(dp_accounting.GaussianDpEvent(30 * given.noise), 10)
    return accountant.get_epsilon(delta)


def laplace_alike(given: Any, delta: float) -> Any:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(10 * given.noise), 50)
    return accountant.get_epsilon(delta)

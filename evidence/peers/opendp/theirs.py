"""OpenDP used directly: its Context, and its chained constructors where the Context has no word for it."""

from typing import Any


def counts(given: Any, epsilon: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=given.given.tolist(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=float(epsilon)),
        domain=dp.vector_domain(dp.atom_domain(T=str)),
        split_evenly_over=1,
    )
    return context.query().count_by_categories(given.names.tolist(), null_category=False).laplace().release()


def ages(given: Any, epsilon: float) -> Any:
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
    counted = space >> dp.t.then_count_by_categories(given.names.tolist(), null_category=False)
    measured = counted >> dp.m.then_laplace(1 / epsilon)
    if measured.map(1) > epsilon:
        raise ValueError("too little noise")
    return measured(given.given.astype(np.int32))


def mean_age(given: Any, epsilon: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=given.given,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=float(epsilon)),
        domain=dp.vector_domain(dp.atom_domain(T="i64")),
        split_evenly_over=2,
    )
    total = context.query().clamp((17, 90)).sum().laplace().release()
    count = context.query().count().laplace().release()
    return total / max(count, 1)


def median_age(given: Any, epsilon: float) -> Any:
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    years = np.arange(17.0, 91.0).tolist()
    measured = dp.binary_search_chain(
        lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), candidates=years, alpha=0.5, scale=scale),
        d_in=1,
        d_out=float(epsilon),
        T=float,
    )
    return measured(given.given.astype(float))


def counts_by_accuracy(given: Any, alpha: float, beta: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    categories = given.names.tolist()
    scale = dp.accuracy_to_discrete_laplacian_scale(accuracy=float(alpha), alpha=beta / len(categories))
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counted = space >> dp.t.then_count_by_categories(categories, null_category=False)
    measured = counted >> dp.m.then_laplace(scale)
    measured(given.given.tolist())
    return measured.map(1)

"""One thread for the algebra of small matrices: on a machine with other work, its threads wait for each other longer
than they compute."""

from __future__ import annotations

from typing import Any


def one_thread() -> Any:
    """Keep the algebra (BLAS) to one thread for as long as a `with` block lasts; threads of other libraries stay."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    return threadpool_limits(limits=1, user_api="blas")

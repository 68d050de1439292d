"""Private estimators that stand where scikit-learn's stand: same verbs, plus `epsilon`, `bounds` and `certificate_`.

Names are loaded on first use, so that `import thebes` never pays for scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thebes.learning.clusters import KMeans as KMeans
    from thebes.learning.document import from_json as from_json
    from thebes.learning.forest import DecisionTreeClassifier as DecisionTreeClassifier
    from thebes.learning.forest import RandomForestClassifier as RandomForestClassifier
    from thebes.learning.forest import RandomForestRegressor as RandomForestRegressor
    from thebes.learning.linear import LinearRegression as LinearRegression
    from thebes.learning.linear import Ridge as Ridge
    from thebes.learning.logistic import LogisticRegression as LogisticRegression
    from thebes.learning.naive_bayes import GaussianNB as GaussianNB
    from thebes.learning.transformers import PCA as PCA
    from thebes.learning.transformers import StandardScaler as StandardScaler

_HOME = {
    "DecisionTreeClassifier": "forest",
    "GaussianNB": "naive_bayes",
    "KMeans": "clusters",
    "LinearRegression": "linear",
    "LogisticRegression": "logistic",
    "PCA": "transformers",
    "RandomForestClassifier": "forest",
    "RandomForestRegressor": "forest",
    "Ridge": "linear",
    "StandardScaler": "transformers",
    "from_json": "document",
}

__all__ = [
    "PCA",
    "DecisionTreeClassifier",
    "GaussianNB",
    "KMeans",
    "LinearRegression",
    "LogisticRegression",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "Ridge",
    "StandardScaler",
    "from_json",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__

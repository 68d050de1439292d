"""diffprivlib: IBM's private learners in scikit-learn's clothes."""

from typing import Any

from evidence.peers.peer import Peer, Work

_EPSILONS = tuple({"epsilon": epsilon} for epsilon in (1, 4, 8, 32))
_OURS = "epsilon and delta 1e-5 for a replaced row, whatever is replaced in it"
_BAYES = (
    "epsilon (delta 0) for a row that is replaced by another one of its class. The number of rows is used as it is, "
    "and what a row adds to a class's sum is hidden to the width of its bounds: a row that changes its class moves two "
    "classes and may move each by more, so under our promise its price is more than epsilon"
)
_LOGISTIC = (
    "epsilon (delta 0) for a replaced row, at the exact minimum of the perturbed objective; the solver stops near it. "
    "Rows are shortened to a norm"
)
_FOREST = (
    "epsilon (delta 0) for a row more or less: a row is in one leaf of one tree, whose label is chosen in private. A "
    "replaced row is one less and one more, so under our promise its price is twice epsilon"
)
_WHY = (
    "Theirs shares epsilon out over counts, means and variances and over every column; one Gaussian noise over all "
    "columns grows with the root of their number only"
)
_FEW = (
    "Where rows are few, noise in the objective must hide all of a row, for each class apart; noise in steps disturbs "
    "less, and takes many of them"
)
_MANY = (
    "Of so many rows noise hardly shows: theirs ends at the optimum, ours near it, as gradients are shortened. A "
    "public rule lets values lie 7.5 spreads from the middle (3 where rows are few; capital gains lie up to 13 off)"
)


def _work(name: str, tables: str, does: str, promises: str, ours: str, theirs: str = "", **more: Any) -> Work:
    return Work(
        name=name,
        tables=tables,
        does=does,
        score="accuracy",
        measure="accuracy",
        ours_promises=_OURS,
        theirs_promises=promises,
        ours=ours,
        theirs=theirs or ours,
        **{"settings": _EPSILONS, **more},
    )


PEER = Peer(
    title="diffprivlib",
    about=(
        "Private learners with scikit-learn's interface, whose noise is drawn in floating point. Its linear regression "
        "is not compared: the noise on a column's squares is scaled to its lower bound, read twice, where both bounds "
        "are meant, so it is too little, and none where that bound is 0; there is no equal epsilon. For its logistic "
        "regression norm and C are the best of 9 or 20 pairs on these very rows; ours has its defaults."
    ),
    works=(
        _work("wine_bayes", "wine", "naive Bayes on wine (178 rows, 3 classes)", _BAYES, "naive_bayes", why=_WHY),
        _work("cancer_bayes", "cancer", "naive Bayes on breast cancer (569 rows)", _BAYES, "naive_bayes", why=_WHY),
        _work(
            "wine_logistic",
            "wine",
            "logistic regression on wine",
            _LOGISTIC,
            "logistic_regression",
            "wine_logistic",
            why=_FEW,
        ),
        _work(
            "cancer_logistic",
            "cancer",
            "logistic regression on breast cancer",
            _LOGISTIC,
            "logistic_regression",
            why=_FEW,
        ),
        _work(
            "census_logistic",
            "census_numbers",
            "logistic regression on Adult (32,561 rows, 7 columns)",
            _LOGISTIC,
            "logistic_regression",
            "census_logistic",
            settings=({"epsilon": 0.1}, {"epsilon": 1}, {"epsilon": 8}),
            why=_MANY,
        ),
        _work("cancer_forest", "cancer", "random forest on breast cancer", _FOREST, "forest"),
    ),
)

"""scikit-learn without privacy: what the same learners reach when nobody is protected."""

from evidence.peers.peer import Peer, Work

_EPSILONS = tuple({"epsilon": epsilon} for epsilon in (1, 4, 8, 32))
_OURS = "epsilon and delta 1e-5 for a replaced row"
_WHY = "Protection costs accuracy where rows are few: noise is as large for 140 rows as for 30,000"


def _work(name: str, tables: str, score: str = "accuracy", measure: str = "accuracy", **more: str) -> Work:
    return Work(
        name=name,
        tables=tables,
        score=score,
        measure=measure,
        settings=_EPSILONS,
        ours_promises=_OURS,
        theirs_promises="nothing",
        **more,  # type: ignore[arg-type]
    )


PEER = Peer(
    title="scikit-learn",
    about="The ceiling: the same learners without any protection. Its figures do not depend on epsilon.",
    works=(
        _work("naive_bayes", "wine", does="naive Bayes on wine (178 rows, 3 classes)", why=_WHY),
        _work("logistic_regression", "cancer", does="logistic regression on breast cancer (569 rows)"),
        _work("linear_regression", "diabetes", "r_squared", "R2", does="linear regression on diabetes (442 rows)"),
        _work(
            "census",
            "census_numbers",
            does="logistic regression on the census table Adult (32,561 rows, 7 columns)",
            ours="logistic_regression",
            theirs="logistic_regression",
        ),
    ),
)

"""Tumult Analytics: private answers to queries that are built over a frame of Spark."""

from evidence.peers.peer import Peer, Work

_EPSILONS = ({"epsilon": 0.1}, {"epsilon": 1})


def _work(name: str, tables: str, score: str, measure: str, **more: object) -> Work:
    told = {"settings": _EPSILONS, "calls": 1, "better": "less", "ours_promises": "epsilon for a person more or less"}
    told |= {"theirs_promises": "epsilon for a row more or less", **more}
    return Work(name=name, tables=tables, score=score, measure=measure, **told)  # type: ignore[arg-type]


PEER = Peer(
    title="Tumult Analytics",
    about=(
        "Queries that are built step by step over a data frame of Spark, behind a session that holds a budget, on the "
        "census table Adult (32,561 rows), on one machine. Theirs gives numbers; ours reads SQL, and gives an error "
        "bar with every number and a certificate. Spark is made for tables that fit no machine; that most "
        "of its time here goes into starting work says little of such ones."
    ),
    works=(
        _work(
            "counts",
            "census_occupations",
            "mean_distance",
            "rows that a count is off",
            does="how many people have each of 15 declared occupations",
        ),
        _work(
            "found",
            "census_occupations",
            "mean_distance",
            "rows that a count is off",
            does="how many people have each occupation, where nobody said which there are",
            ours_promises="epsilon and delta 1e-6 for a person more or less",
            theirs_promises="epsilon and delta 1e-6 for a row more or less",
            why="Both find groups with one half of the price and answer with the other",
        ),
        _work(
            "mean_age",
            "census_ages",
            "off_the_mean",
            "years off",
            does="the mean age",
            why=(
                "Both add up how far ages lie from the middle of their bounds, and divide by a noisy count; two rounds "
                "say little of which is exacter"
            ),
        ),
    ),
)

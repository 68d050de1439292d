"""SmartNoise SQL: private answers to a SELECT over a frame, as `thebes.open_data` gives them."""

from evidence.peers.peer import Peer, Work

_EPSILONS = ({"epsilon": 0.1}, {"epsilon": 1})


def _work(name: str, tables: str, score: str, measure: str, **more: object) -> Work:
    told = {"settings": _EPSILONS, "calls": 5, "better": "less", **more}
    return Work(
        name=name,
        tables=tables,
        score=score,
        measure=measure,
        theirs_promises="epsilon and delta 1e-6 for a row more or less",
        **told,  # type: ignore[arg-type]
    )


PEER = Peer(
    title="SmartNoise SQL",
    about=(
        "SQL over a data frame of one's own, on the census table Adult (32,561 rows). Both are told of columns and "
        "bounds beforehand. Theirs gives numbers; ours keeps a budget, and gives an error bar with every number and a "
        "certificate."
    ),
    works=(
        _work(
            "counts",
            "census_occupations",
            "mean_distance",
            "rows that a count is off",
            does="how many people have each of 15 declared occupations",
            ours_promises="epsilon for a person more or less",
        ),
        _work(
            "found",
            "census_occupations",
            "mean_distance",
            "rows that a count is off",
            does="how many people have each occupation, where nobody said which there are",
            theirs="counts",
            ours_promises="epsilon and delta 1e-6 for a person more or less",
            why=(
                "Ours finds groups with one half of the price and answers with the other, so that several sites can "
                "answer about the same groups and no count is too high for having been found; theirs does both by one "
                "noise at the whole price"
            ),
        ),
        _work(
            "mean_age",
            "census_ages",
            "off_the_mean",
            "years off",
            does="the mean age",
            ours_promises="epsilon for a person more or less",
        ),
    ),
)

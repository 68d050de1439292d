"""OpenDP used directly: Thebes draws its noise with the same library."""

from peers.peer import Peer, Work

_EPSILONS = ({"epsilon": 0.1}, {"epsilon": 1})
_OURS = "epsilon for a person more or less"
_THEIRS = "epsilon for a row more or less"


def _work(name: str, tables: str, score: str, measure: str, **more: object) -> Work:
    told = {"settings": _EPSILONS, "calls": 20, "better": "less", **more}
    return Work(
        name=name,
        tables=tables,
        score=score,
        measure=measure,
        ours_promises=_OURS,
        theirs_promises=_THEIRS,
        **told,  # type: ignore[arg-type]
    )


PEER = Peer(
    title="OpenDP",
    about=(
        "The library that draws Thebes' noise, used directly on the census table Adult (32,561 rows). Ours is a whole "
        "query of one site: document, schema, plan, price, release, interval and certificate. Theirs is the "
        "measurement alone; that nobody asks again without paying is its user's affair."
    ),
    works=(
        _work(
            "counts",
            "census_occupations",
            "mean_distance",
            "rows that a count is off",
            does="how many people have each of 15 occupations",
        ),
        _work("mean_age", "census_ages", "off_the_mean", "years off", does="the mean age"),
        _work("median_age", "census_ages", "off_the_median", "years off", does="the median age"),
        _work(
            "counts_by_accuracy",
            "census_occupations",
            "itself",
            "epsilon that it costs",
            does="what 15 counts cost that all lie within alpha, but for odds of beta",
            settings=({"alpha": 20, "beta": 0.05}, {"alpha": 100, "beta": 0.001}),
            calls=5,
        ),
    ),
)

"""OpenDP used directly: Thebes draws its noise with the same library."""

from evidence.peers.peer import Peer, Work

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
            why=(
                "The noise is the same. Text goes into OpenDP one word after another; what is told it in numbers is "
                "counted in no time, as the next work shows"
            ),
        ),
        _work(
            "ages",
            "census_years",
            "mean_distance",
            "rows that a count is off",
            does="how many people are of each age from 17 to 90",
            why="A query of ours does much that is no noise: it reads, plans, prices and certifies",
        ),
        _work(
            "mean_age",
            "census_ages",
            "off_the_mean",
            "years off",
            does="the mean age",
            why=(
                "Ours adds up how far ages lie from the middle of their bounds, which halves what one person can move. "
                "Whoever knows that writes it for OpenDP in another line"
            ),
        ),
        _work(
            "median_age",
            "census_ages",
            "off_the_median",
            "years off",
            does="the median age",
            why="Theirs is told to choose a whole year; ours cuts the range into 1,024 bins, as it does unasked",
        ),
        _work(
            "counts_by_accuracy",
            "census_occupations",
            "itself",
            "epsilon that it costs",
            does="what 15 counts cost that all lie within alpha, but for odds of beta",
            settings=({"alpha": 20, "beta": 0.05}, {"alpha": 100, "beta": 0.001}),
            calls=5,
            why=(
                "Ours works out the odds that all 15 noises are small at once; theirs are those of one, and dividing "
                "beta by 15 is its user's way"
            ),
        ),
    ),
)

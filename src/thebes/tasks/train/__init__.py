"""train: a model learned over the rows of many institutions, round after round, from noised sums."""

ANSWERED_BY = "sites"

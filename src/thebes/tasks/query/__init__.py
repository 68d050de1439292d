"""query: one statistic over the rows of institutions, each of which keeps its own."""

ANSWERED_BY = "sites"

"""pipeline: a model trained on a growing data set until it is good enough, by the site that keeps the stream."""

ANSWERED_BY = "sites"

"""Synthetic rows: a distribution learned privately from histograms of the rows, and rows drawn from it."""

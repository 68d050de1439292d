"""AnonML (Cyphers & Veeramachaneni 2017): ensembles from locally private histograms."""

PAPER = "AnonML"

"""Sage (Lécuyer et al. 2019): growing data, budgets by block, and training that adapts until it is good enough."""

PAPER = "Sage"

"""LEAP (2021): many institutions, one question; what it costs that data stay where they are."""

PAPER = "LEAP"

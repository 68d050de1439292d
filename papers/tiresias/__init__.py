"""Tiresias (2020): people's own stores, three ways to learn from them, and how long many of them take."""

PAPER = "Tiresias"

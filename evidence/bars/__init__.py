"""Measure every error bar: how often it holds what it names, and how wide it is beside the errors."""

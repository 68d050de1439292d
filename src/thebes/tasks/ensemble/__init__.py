"""Classifiers learned from locally private histograms of small feature subsets (AnonML)."""

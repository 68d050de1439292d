"""Whole-number sums and batches of rows, written once and computed by whichever engine holds the rows."""

"""Answering more from the same budget: what was released is used again, by itself or through a synopsis made of it."""

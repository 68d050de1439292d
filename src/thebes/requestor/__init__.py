"""Whoever asks: submits documents to a coordinator, waits, and reads certified answers."""

"""The parts of aggregators that every kind shares."""

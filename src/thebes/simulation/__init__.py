"""The whole world in one process: every row a different person, through the same owners' halves and aggregators."""

# The function takes the place of the module that holds it.
from thebes.simulation.population import population

__all__ = ["population"]

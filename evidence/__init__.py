"""Evidence that Thebes keeps its promises: attacks, measurements, blows, strange input, comparisons."""

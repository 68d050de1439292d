"""What is done to show that Thebes keeps its promises: attacks, measurements, blows, strange input, comparisons."""

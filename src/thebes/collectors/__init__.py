"""Collectors: programs that fill a person's store. They know the home's own address on this machine, and no role."""

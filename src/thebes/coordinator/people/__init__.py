"""Contributions that people send to a coordinator, with or without a name, and the groups they belong to."""

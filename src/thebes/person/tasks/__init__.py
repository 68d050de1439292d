"""Tasks as a person's machine knows them: the verified feed, what was decided, the rules."""

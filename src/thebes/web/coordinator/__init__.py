"""The coordinator's pages, a file for each: looking at tasks, asking, signing in, and what operators do."""

"""Kinds of tasks, one folder each, all of one shape (`protocols`)."""

"""Places where rows lie, opened to be read and nothing else: files, databases, records behind an interface."""

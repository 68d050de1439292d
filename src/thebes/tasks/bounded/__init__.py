"""bounded: rows perturbed by their owners, so that nobody has to be trusted; the requestor gets the rows."""

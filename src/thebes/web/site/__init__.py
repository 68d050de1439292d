"""A site's own page, for its steward and on this machine only: what is asked, what was decided, what is left."""

"""The budget of a site: what it may still spend, for whom, and what an answer costs."""

"""The link to the coordinator, and between a site's own two processes."""

"""The coordinator over HTTP: addresses, bodies, and what stands before every request."""

"""Growth: what the same work takes at more and more people, rows, sites, blocks and weights, beside a bare engine."""

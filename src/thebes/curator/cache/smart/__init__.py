"""A synopsis of made-up rows that are weighed until they answer as the released answers did (SmartCache).

The seed's idea on sound ground: rows are made from noised marginals over declared cells, only released values move
their weights, and every look at the data is paid for. See `docs/caching.md`.
"""

"""A small world of real processes, struck at random for a while; afterwards its databases must tell of no broken
promise.

`python -m evidence.chaos --minutes 5 --seed 3`. A seed fixes which blows fall in which order; when they land is the
machine's doing.
"""

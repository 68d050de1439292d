"""The page of results, written from the outcomes that are kept: docs/results.md, and its pictures in docs/results/.

    python -m tools.results

Only the words between the numbers were typed. A line whose outcome is not kept is left out.
"""

"""The page of results, written from the outcomes that are kept while the documentation is built.

Only the words between the numbers were typed. A line whose outcome is not kept is left out.
"""

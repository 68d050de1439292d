"""BBS signatures with per-context pseudonyms on BLS12-381, after the drafts of the IRTF's crypto forum.

Only `scheme` is for the rest of the room; the other files are the drafts' operations, and there alone does anything
take its random numbers from outside, so that published vectors can be checked.
"""

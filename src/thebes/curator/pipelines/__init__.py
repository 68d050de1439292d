"""Pipelines over growing data: what a developer writes, how it is tried again with more data or more budget until it is
good enough, and what becomes of a model that is. A library: where streams lie and who has rights on them is passed in.
"""

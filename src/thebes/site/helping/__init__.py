"""The site as helper: the second server of tasks that people answer, which hears one share of every answer.

A helper needs no rows and reads none. What it holds of a task lies in HOME/helping.db, sealed under a key of the task
in HOME/helping, which is in no copy of the home.
"""

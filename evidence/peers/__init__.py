"""Thebes beside other libraries: the same work in the same run, each library in a virtual environment of its own.

    python -m evidence.peers [NAME ...]      or  make peers

A folder for each peer: what is compared (`__init__.py`), `theirs.py` and `ours.py` with one function for each work, and
what its environment holds (`requirements.txt`). What a user must write is the body of such a function.
"""

"""Bytes from strangers, thrown at everything that reads them: it takes them or refuses them in words of ours, soon and
in little memory.

`python -m evidence.fuzz frames --minutes 1`. What is thrown grows from the files in `corpus/`; what broke something
lies in `found/` and, once it is mended, in `corpus/`, which the tests replay.
"""

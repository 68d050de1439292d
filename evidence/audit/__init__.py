"""Every mechanism and estimator of Thebes, attacked, and every kind; `make audit` prints the table.

A room's file lists its cases. Whoever adds a mechanism adds a case here, with the neighbours that hurt it most.
The rows of a kind lie in its folder (`audit.py`).
"""

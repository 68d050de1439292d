"""A person's machine: the store, the decision, the ledger, and the only door through which anything leaves.

What must stay true: nothing leaves but a contribution, after consent and a ledger charge; noise is drawn once.
"""

"""The coordinator: takes tasks from requestors and contributions from owners, and gives the answers out.

It never sees an owner's rows beyond what the document says leaves them, and never computes an owner's half.
"""

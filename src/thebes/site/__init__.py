"""An institution's node: it decides what of its rows is answered, computes it, and lets only that out.

The process that holds the rows (`algorithm`) and the one that talks (`connector`) are two; neither trusts the other
with what it does not need.
"""

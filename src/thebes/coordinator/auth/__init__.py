"""Admission, which says who may come in: users and their sessions, capabilities, the authority that certifies sites,
the list's key."""

"""algorithm: composed of blocks, each of which is private where something leaves."""

ANSWERED_BY = "sites"

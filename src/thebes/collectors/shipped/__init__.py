"""The collectors that are part of Thebes: one file each, declared as entry points like anybody else's."""

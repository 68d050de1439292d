"""basic: one number about many people, from one value each, computed by a server people trust."""

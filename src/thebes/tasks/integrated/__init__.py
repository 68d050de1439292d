"""integrated: a model of many people, from a few columns of each, trained by a server people trust."""

"""One file per change of the tables, applied in order when a store is opened. A file that has shipped is final."""

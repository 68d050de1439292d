"""One file per change of the tables, applied in order when a ledger is opened. A file that has shipped is final."""

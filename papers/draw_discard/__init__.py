"""Draw and Discard (Pihur et al. 2018): asynchronous training with noise at every owner."""

PAPER = "Draw and Discard"

"""`thebes demo`: a whole deployment on this machine, and its answers beside the truth."""

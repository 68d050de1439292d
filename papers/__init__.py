"""Tables and figures of the papers, run again: the printed value, ours, the ceiling without privacy, and the price."""

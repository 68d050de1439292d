"""Tasks that are trained without end: their models, in one process or shared by several."""

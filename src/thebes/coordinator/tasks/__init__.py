"""Tasks at a coordinator, from being put up to the end of their last phase and their removal."""

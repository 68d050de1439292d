"""algorithm: a form of document, composed of blocks, that turns into the steps of `query` or `train`."""

"""Every total that noise is added to, with the proof of how far one row can move it (`stability` is their shape)."""

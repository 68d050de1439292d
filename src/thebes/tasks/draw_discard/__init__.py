"""draw-discard: a model that never stops learning: an owner draws one of k instances, changes it, and another goes."""

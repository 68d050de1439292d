"""Data where it lies: featurizers that read it and the rows they give. Only owners and curators name these types."""

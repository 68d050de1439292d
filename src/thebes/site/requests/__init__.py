"""What is asked of a site, from its arrival to the stored response."""

"""Requests to a site, from their arrival to the stored response."""

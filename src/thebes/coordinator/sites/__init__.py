"""Institutions as a coordinator meets them: linked by name, asked in turn, never waited for without end."""

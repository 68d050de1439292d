"""The steward's side of a site, what its steward sees and does: views, an audit log, questions of their own."""

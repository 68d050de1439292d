"""What a site's steward sees and does: views, an audit log, questions of their own."""

"""What a site may still spend, for whom, and what an answer costs."""

"""What a person may still spend, and what was spent."""

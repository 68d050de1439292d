"""The budget of a person: what they may still spend, and what was spent."""

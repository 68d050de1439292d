"""Taking part: from consent to the contribution that was sent."""

"""The rows of the audit: what attacks a kind's promise, and what of it every kind shares."""

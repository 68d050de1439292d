"""Growing data sets joined with their ledger."""

"""A task that is being composed: what stands in the form, and the document it means."""

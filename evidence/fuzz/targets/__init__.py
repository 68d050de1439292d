"""One module for each reader: `one(data)` hands it bytes as a stranger would. It returns, or raises a `Mistake` or a
`Refusal`; whatever else it raises is a bug, of the reader or of what it promises."""

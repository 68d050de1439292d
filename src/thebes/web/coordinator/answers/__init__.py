"""Answers of every form as a requestor looks at them: `sections` for the page, `table` for the download."""

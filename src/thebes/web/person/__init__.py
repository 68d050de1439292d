"""A person's pages, a file for each: what lies here, what is asked, what was agreed to, what it cost."""

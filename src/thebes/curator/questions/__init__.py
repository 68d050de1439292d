"""Questions over many people's rows: what is asked, the whole numbers that answer it, the noise."""

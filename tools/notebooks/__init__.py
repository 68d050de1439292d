"""The notebooks of the documentation: run in this process, kept with what they put out, and laid into the pages."""

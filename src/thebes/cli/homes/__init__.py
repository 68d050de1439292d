"""The tools for those who run Thebes: to know what lies in a folder, to copy it and to bring the copy back."""

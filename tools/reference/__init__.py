"""Pages of reference that are written out of the program: every command with its options, every address with what it
takes and answers.
"""

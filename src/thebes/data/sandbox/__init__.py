"""SQL from strangers, run over a person's store in a process that can do nothing else.

`process` is the owner's side, `child` what runs there, `walls` what is taken from it, `pipe` how the two talk.
"""

"""A child process for what strangers send: how it is started and heard, and what is taken from it.

`parent` is the owner's side, `inside` the child's side of the pipes, `measures` what a child gives up, `calls` the
parts of that which only Linux has, `landlock` the files it can still reach. Knows nothing of SQL or networks.
"""

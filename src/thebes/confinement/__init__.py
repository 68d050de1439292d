"""The bounds within which what strangers send is kept: a child process for it, and limits on the answers of servers.

`parent` is the owner's side, `inside` the child's side of the pipes, `measures` what a child gives up, `calls` the
parts of that which only Linux has, `landlock` the files it can still reach; `answers` what is taken of what a server
says. Knows nothing of SQL or of what is asked.
"""

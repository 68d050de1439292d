"""The needs of every kept database, whatever its tables hold: to be opened by this version and by no older one."""

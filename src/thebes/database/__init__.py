"""What every kept database needs, whatever its tables hold: to be opened by this version and by no older one."""

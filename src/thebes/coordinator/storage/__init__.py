"""The storage of what a coordinator remembers: its database, tables, migrations and the queue of writes."""

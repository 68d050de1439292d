"""The processes of a coordinator: servers behind one port, the worker, their figures."""

"""A person's own data: a metadata database and one encrypted SQLite database per collector."""

from thebes.data.store.declaration import Column, Declaration, Table, read_declaration
from thebes.data.store.store import Store
from thebes.data.store.view import StoreView

__all__ = ["Column", "Declaration", "Store", "StoreView", "Table", "read_declaration"]

"""Opening an encrypted database, and writing to it so that what was acknowledged survives a crash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from thebes.data.keys import KEY_BYTES
from thebes.privacy.faults import Fault, Mistake

BUSY_MILLISECONDS = 30_000


def connect(path: Path, key: bytes) -> apsw.Connection:
    """A connection that writes durably (WAL, synchronous FULL), or a Mistake if the key is not this file's.

    The cipher is SQLCipher's: AES-256 in CBC mode with an HMAC-SHA512 over every page, a salt for every file. Keys are
    32 uniform bytes (or come from argon2id), so SQLCipher's own stretching of passphrases is set to one round.
    """
    if len(key) != KEY_BYTES:
        raise Mistake("key", f"must have {KEY_BYTES} bytes")
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    try:
        connection = apsw.Connection(str(path), flags=flags)
    except apsw.CantOpenError:
        raise Mistake("folder", "cannot be written to, or is not a folder") from None
    except UnicodeEncodeError:
        raise Mistake("folder", "has a name that is not written in UTF-8; take another, or set PYTHONUTF8=1") from None
    try:
        connection.pragma("cipher", "sqlcipher")
        connection.pragma("kdf_iter", 1)
        connection.pragma("hexkey", key.hex())
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.pragma("temp_store", 2)  # in memory: nothing in the clear beside the file
        connection.pragma("trusted_schema", False)
        if str(connection.pragma("journal_mode", "wal")).lower() != "wal":
            raise Fault("the folder's file system cannot hold a write-ahead log")
        connection.pragma("synchronous", "FULL")
    except apsw.NotADBError:
        connection.close()
        raise Mistake("key", "does not open this store: it is another key, or a file is damaged") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """Everything in the block is stored, durably and as one, or nothing is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def quoted(name: str) -> str:
    """An identifier for SQL. Names were checked when they were declared; this is the second wall."""
    return '"' + name.replace('"', '""') + '"'

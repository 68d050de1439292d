"""Places where the key of a home lives: the system's keyring, else a file that only its owner reads, else a passphrase.

One small file in the home says which. A key is made once and never replaced: losing it is losing the store.
"""

from __future__ import annotations

import hmac
import json
import secrets
from pathlib import Path
from typing import Any

from thebes.database import private_files
from thebes.database.folder_sync import settle
from thebes.privacy.faults import Mistake

KEY_BYTES = 32
SHORTEST_PASSPHRASE = 8  #: characters

_RECORD = "key.json"
_SERVICE = "thebes"
# RFC 9106, section 4, the second recommended setting of argon2id.
_PASSES, _MEMORY_KIB, _LANES = 3, 64 * 1024, 4


def kept(home: str | Path) -> str | None:
    """Tell where the key of this home is: "keyring", "file", "passphrase", or None before there is one."""
    path = Path(home) / _RECORD
    return str(_read(path)["kept"]) if path.exists() else None


def key_of(home: str | Path, *, passphrase: str | None = None) -> bytes:
    """The 32 bytes with which everything in `home` is encrypted; made on first use.

    A first use with `passphrase` derives the key from it (argon2id) and keeps it nowhere; without, a random key goes
    to the system's keyring, or, where there is none that works, into a file of mode 0600. Whoever reads that file, or
    is this user, reads the store: it protects copies of the data, not a session that is open.
    """
    folder = Path(home)
    path = folder / _RECORD
    if not path.exists():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            raise Mistake("home", "must be a folder that can be written to") from None
        _create(path, _new(passphrase))
    record = _read(path)
    try:
        if record["kept"] == "file":
            return bytes.fromhex(record["key"])
        if record["kept"] == "keyring":
            return _from_keyring(str(record["entry"]))
        return _checked(record, passphrase)
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, Mistake):
            raise
        raise Mistake("home", f"{_RECORD} is damaged; put back a copy of it") from None


def forget(home: str | Path) -> None:
    """Destroys the key of `home`. What was encrypted with it can no longer be read by anybody."""
    path = Path(home) / _RECORD
    if not path.exists():
        return
    try:
        record = _read(path)
        if record["kept"] == "keyring":
            import keyring

            keyring.delete_password(_SERVICE, str(record["entry"]))
    except Exception:  # noqa: S110  backends raise what they like, and a damaged record must not keep us from deleting
        pass
    path.unlink(missing_ok=True)
    settle(path.parent)


def _new(passphrase: str | None) -> dict[str, Any]:
    if passphrase is not None:
        if len(passphrase) < SHORTEST_PASSPHRASE:
            raise Mistake("passphrase", f"must have at least {SHORTEST_PASSPHRASE} characters")
        settings = {"passes": _PASSES, "memory_kib": _MEMORY_KIB, "lanes": _LANES}
        record: dict[str, Any] = {"kept": "passphrase", "salt": secrets.token_hex(16), **settings}
        return {**record, "check": _check(_derive(record, passphrase))}
    key = secrets.token_bytes(KEY_BYTES)
    entry = secrets.token_hex(8)
    if _into_keyring(entry, key):
        return {"kept": "keyring", "entry": entry}
    return {"kept": "file", "key": key.hex()}


def _into_keyring(entry: str, key: bytes) -> bool:
    """Only true once the keyring gave the key back: some take everything and remember nothing."""
    try:
        import keyring

        keyring.set_password(_SERVICE, entry, key.hex())
        return keyring.get_password(_SERVICE, entry) == key.hex()
    except Exception:
        return False


def _from_keyring(entry: str) -> bytes:
    try:
        import keyring

        found = keyring.get_password(_SERVICE, entry)
    except Exception:
        found = None
    if found is None:
        raise Mistake("home", "its key is in the system's keyring, which does not give it; unlock the keyring")
    return bytes.fromhex(found)


def _derive(record: dict[str, Any], passphrase: str) -> bytes:
    from argon2.low_level import Type, hash_secret_raw

    return hash_secret_raw(
        passphrase.encode(),
        bytes.fromhex(record["salt"]),
        time_cost=int(record["passes"]),
        memory_cost=int(record["memory_kib"]),
        parallelism=int(record["lanes"]),
        hash_len=KEY_BYTES,
        type=Type.ID,
    )


def _checked(record: dict[str, Any], passphrase: str | None) -> bytes:
    if passphrase is None:
        raise Mistake("passphrase", "is needed: the key of this home is made from one")
    key = _derive(record, passphrase)
    if not hmac.compare_digest(_check(key), str(record["check"])):
        raise Mistake("passphrase", "is not the one with which this home was made")
    return key


def _check(key: bytes) -> str:
    # Tells a wrong passphrase from a damaged store; guessing against it is no easier than against the store itself.
    return hmac.new(key, b"thebes passphrase check", "sha256").hexdigest()[:32]


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_mode & 0o077:
        raise Mistake("home", f"{_RECORD} can be read by others; run: chmod 600 on it")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["kept"] in ("file", "keyring", "passphrase"):
            return dict(record)
    except (ValueError, TypeError, KeyError):
        pass
    raise Mistake("home", f"{_RECORD} is damaged; put back a copy of it")


def _create(path: Path, record: dict[str, Any]) -> None:
    """Written whole or not at all; where two processes race, the first one's key counts."""
    private_files.create(path, json.dumps(record))

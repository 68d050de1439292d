"""Conversions of what lies at public places into the files that experiments read: unpacked, mended, put together,
written.

Everything here takes bytes that may be anything, and nothing in them is run: pictures stay as they are, tables are
numbers and words. Whether the outcome is the published file its checksum says, not these functions.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from _typeshed import SupportsRead

MOST_BYTES = 256 * 2**20  #: of anything unpacked
#: what is raised where bytes are not what they should be
BROKEN = (
    OSError, EOFError, KeyError, ValueError, TypeError, NotImplementedError, RuntimeError,
    zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
)  # fmt: skip

Conversion = Callable[[Sequence[bytes]], bytes]

_SEED = 7  #: of codes and order, as they were when the experiments were written
_PICTURE = re.compile(r"(?:train|test)/[a-z]+/[0-9]{4}\.jpg")
_BLOCK, _RECORD = 512, 10240  #: bytes, of a tar archive


def as_it_is(parts: Sequence[bytes]) -> bytes:
    return parts[0]


def packed(parts: Sequence[bytes]) -> bytes:
    return gzip.compress(parts[0], mtime=0)


def mended(first: bytes, last: bytes) -> Conversion:
    """With what the original has before and after."""
    return lambda parts: packed([first + parts[0] + last])


def member(name: str) -> Conversion:
    """One file of a zip."""

    def made(parts: Sequence[bytes]) -> bytes:
        with zipfile.ZipFile(io.BytesIO(parts[0])) as archive, archive.open(name) as stream:
            return packed([_whole(stream)])

    return made


def pictures(parts: Sequence[bytes]) -> bytes:
    """The JPEG files of a repository's archive, as git would archive only their two folders: the same bytes whoever
    packed them, with git's own headers."""
    told, moment = "", 0
    files: list[tuple[str, bytes]] = []
    for entry, content in _entries(parts[0]):
        told, moment = entry.pax_headers.get("comment", told), int(entry.mtime)
        name = entry.name.partition("/")[2]
        if _PICTURE.fullmatch(name):
            files.append((name, content))
    return lzma.compress(_archived(sorted(files), told, moment), preset=1)  # pictures are packed already


def rides(parts: Sequence[bytes]) -> bytes:
    """Months of rides as CSV, one after the other, as one table."""
    import pandas as pd

    whole = {
        "vendor_id",
        "passenger_count",
        "rate_code_id",
        "pickup_location_id",
        "dropoff_location_id",
        "payment_type",
    }
    moments = ["pickup_datetime", "dropoff_datetime"]
    texts = {"store_and_fwd_flag": "object"}
    table = pd.concat([pd.read_csv(io.BytesIO(part), dtype=texts) for part in parts], ignore_index=True)
    made: dict[str, Any] = {}
    for name, column in table.items():
        if name in whole:
            made[str(name)] = column.astype("Int16")
        elif name in moments:
            made[str(name)] = pd.to_datetime(column, format="%Y-%m-%d %H:%M:%S").astype("datetime64[ms]")
        else:
            made[str(name)] = column if name in texts else column.astype(np.float64)
    return _written(made)


def advertisements(parts: Sequence[bytes]) -> bytes:
    """Parts of a table of words alone, one after the other; nothing where a word is empty, numbers where they are."""
    import pandas as pd

    table = pd.concat([pd.read_parquet(io.BytesIO(part)) for part in parts], ignore_index=True)
    made: dict[str, Any] = {}
    for name, column in table.items():
        words = column.where(column != "", None)
        if str(name).startswith("C"):
            made[str(name)] = words
        elif name == "label":
            made[str(name)] = pd.to_numeric(words).astype("Int8")
        else:
            made[str(name)] = pd.to_numeric(words).astype("Int32")
    return _written(made)


def pull_requests(parts: Sequence[bytes]) -> bytes:
    """The tables of a repository's archive, one for each project, as one. Whose they are is a code, their own numbers
    are left out, and their order says nothing: nobody is named, though whoever has the archive can find everybody."""
    import pandas as pd

    tables = {
        name: content
        for entry, content in _entries(parts[0])
        if re.fullmatch(r"data/[^/]+\.csv", name := entry.name.partition("/")[2])
    }
    heads = {content.partition(b"\n")[0] for content in tables.values()}
    if len(heads) != 1:
        raise ValueError
    lines = b"".join(tables[name].partition(b"\n")[2].rstrip(b"\n") + b"\n" for name in sorted(tables))
    table = pd.read_csv(io.BytesIO(heads.pop() + b"\n" + lines), keep_default_na=False, na_values=[""])
    draw = np.random.default_rng(_SEED)  # codes, not noise
    made = {str(name): table[name] for name in table.columns if name not in ("pull_req_id", "github_id")}
    for name in ("requester", "project_name"):
        places, found = pd.factorize(table[name])
        made[name] = pd.Series(draw.permutation(len(found))[places])
    for name in ("merged_at", "mergetime_minutes"):
        made[name] = made[name].astype("Int64")
    order = np.random.RandomState(_SEED).permutation(len(table))
    return _written({name: column.iloc[order].reset_index(drop=True) for name, column in made.items()})


def _written(columns: dict[str, Any]) -> bytes:
    import pandas as pd

    held = io.BytesIO()
    pd.DataFrame(columns).to_parquet(held, index=False, compression="zstd")
    return held.getvalue()


def _whole(stream: SupportsRead[bytes]) -> bytes:
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError
    return content


def _entries(archive: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The files of a packed archive, of which none is ever written anywhere."""
    seen = 0
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r|gz") as files:
        for entry in files:
            seen += entry.size
            if seen > MOST_BYTES:
                raise ValueError
            held = files.extractfile(entry) if entry.isfile() else None
            if held is not None:
                yield entry, held.read()


def _archived(files: Sequence[tuple[str, bytes]], told: str, moment: int) -> bytes:
    comment = f" comment={told}\n".encode()
    length = len(comment) + len(str(len(comment) + len(str(len(comment)))))
    made = bytearray(_entry("pax_global_header", str(length).encode() + comment, moment, kind="g", rights=0o666))
    folders: set[str] = set()
    for name, content in files:
        parts = name.split("/")[:-1]
        for depth in range(len(parts)):
            folder = "/".join(parts[: depth + 1]) + "/"
            if folder not in folders:
                folders.add(folder)
                made += _entry(folder, b"", moment, kind="5", rights=0o775)
        made += _entry(name, content, moment, kind="0", rights=0o664)
    made += bytes(2 * _BLOCK)
    return bytes(made) + bytes(-len(made) % _RECORD)


def _entry(name: str, content: bytes, moment: int, *, kind: str, rights: int) -> bytes:
    """Header and content, to the byte as git writes them."""
    before = name.encode().ljust(100, b"\0") + b"%07o\0%07o\0%07o\0%011o\0%011o\0" % (
        rights,
        0,
        0,
        len(content),
        moment,
    )
    who = b"root".ljust(32, b"\0")
    after = kind.encode() + bytes(100) + b"ustar\x0000" + who + who + b"0000000\0" * 2 + bytes(167)
    total = sum(before) + sum(after) + 8 * ord(" ")
    return before + b"%07o\0" % total + after + content + bytes(-len(content) % _BLOCK)

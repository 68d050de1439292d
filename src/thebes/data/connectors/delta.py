"""A table of Delta Lake, in a folder or in a store that speaks S3, read by DuckDB at one version."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource
from thebes.data.connectors.web_address import web_address
from thebes.privacy.faults import Mistake

_S3 = "s3://"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")  #: of the store, in the environment and nowhere else
_PROXIES = ("http_proxy", "all_proxy", "no_proxy")
#: a store that does not answer is told of within a minute, not after three
_PATIENCE = {"max_retries": "4", "retry_timeout": "30s", "timeout": "60s", "connect_timeout": "10s"}


class DeltaSource(Source):
    """`path` is the table's folder, or `s3://bucket/folder`; `endpoint` is of a store that is not Amazon's. Without a
    `version` it is read at the newest that there is when it is opened."""

    kind: Literal["delta"]
    path: str = Field(min_length=1, max_length=4096)
    version: int | None = Field(default=None, ge=0, lt=2**63)
    endpoint: str | None = Field(default=None, max_length=2000)
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]{1,64}$")


class Delta(ScannedSource):
    """One table. What is read stays as it was when it was first looked at, whatever is written meanwhile."""

    def __init__(self, source: DeltaSource, folder: Path) -> None:
        remote = source.path.startswith(_S3)
        self._place = source.path.rstrip("/") if remote else str(path_of(source.path, folder))
        self._version, self._options = source.version, _options(source) if remote else None
        told = f"{self._version} of {self._place}"  # a join may read one table at two versions
        self._name = f"thebes_{hashlib.sha256(told.encode()).hexdigest()[:24]}"
        self.what = f"the Delta table {Path(self._place).name}"
        if source.endpoint is not None and not remote:
            raise Mistake("source.endpoint", "is of a store; leave it out, or let path begin with s3://")
        if not remote and not Path(self._place, "_delta_log").is_dir():
            raise self._missing()

    def _missing(self) -> SourceUnavailable:
        return SourceUnavailable(f"source.path: there is no {self.what.removeprefix('the ')} where the data set says")

    def columns(self) -> Mapping[str, Held]:
        # Pictures and arrays in rows are read by a second connection, to which what is registered is not known.
        kept: tuple[Held, ...] = ("array", "bytes")
        return {name: "other" if held in kept else held for name, held in super().columns().items()}

    def attach(self, opened: Any) -> str:
        opened.register(self._name, self._rows)
        return self._name

    @cached_property
    def _rows(self) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, DeltaProtocolError, TableNotFoundError

        try:
            table = DeltaTable(self._place, version=self._version, storage_options=self._options)
            return table.to_pyarrow_dataset()
        except DeltaProtocolError:
            why = f"{self.what} uses features of its format that are not read here, such as deletion vectors"
            raise SourceUnavailable(f"source.path: {why}") from None
        except TableNotFoundError:
            raise self._missing() from None
        except (DeltaError, OSError) as error:
            if self._options is not None and isinstance(error, OSError):
                why = "its store does not answer, or these keys may not read it"
                raise SourceUnavailable(f"source.path: {self.what} cannot be read: {why}") from None
            if self._version is not None:
                why = f"cannot be read at version {self._version}; leave it out for the newest"
                raise SourceUnavailable(f"source.version: {self.what} {why}") from None
            raise self.unavailable() from None


def _options(source: DeltaSource) -> dict[str, str]:
    """Return how a store is reached: with keys of the environment, encrypted or on this machine, without a proxy."""
    folders = source.path.removeprefix(_S3).strip("/").split("/")
    if len(folders) < 2 or {"", ".", ".."} & set(folders) or set("?#@\\") & set(source.path):
        raise Mistake("source.path", "must name a bucket and a folder, such as s3://hospital/visits")
    elsewhere = next((name for name in os.environ if name.startswith("AWS_ENDPOINT")), None)
    if elsewhere is not None:  # it would go before what the data set says
        raise SourceUnavailable(f"source.endpoint: say it here, and take {elsewhere} out of the environment")
    missing = next((name for name in _KEYS if not os.environ.get(name)), None)
    if missing is not None:
        raise SourceUnavailable(f"source.path: the environment has no {missing}, which the store asks for")
    keys = {name.lower(): os.environ[name] for name in (*_KEYS, "AWS_SESSION_TOKEN") if os.environ.get(name)}
    options = {**keys, **_PATIENCE, "aws_region": source.region, "aws_allow_http": "false"}
    if source.endpoint is not None:
        address = web_address(source.endpoint, "source.endpoint", "https://s3.example.org")
        options["aws_endpoint"] = address
        if address.startswith("http:"):
            _no_proxy(str(urlsplit(address).hostname))
            options["aws_allow_http"] = "true"
    return options


def _no_proxy(host: str) -> None:
    """Refuse to ask a store of this machine through a proxy, which would read what is not encrypted."""
    told = {name.lower(): value for name, value in os.environ.items() if name.lower() in _PROXIES and value}
    around = told.pop("no_proxy", "").replace(" ", "").split(",")
    if told and host not in around and "*" not in around:
        raise SourceUnavailable(f"source.endpoint: a proxy would be asked for it; put {host} into NO_PROXY")


def open_delta(source: Mapping[str, Any], *, folder: Path) -> Delta:
    """The connector of `{"kind": "delta", "path": ...}`."""
    return Delta(read_source(DeltaSource, source), folder)

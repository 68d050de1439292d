"""`thebes verify`: whether a saved release or certificate is what its coordinator published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thebes.cli import connection
from thebes.cli.output import JsonTarget, write_json
from thebes.privacy.faults import Mistake


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A release or a certificate, as it was saved.")],
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="FINGERPRINT", help="Fingerprint of the coordinator's key, as its operator gives it."
        ),
    ] = None,
    coordinator: str | None = connection.coordinator(),
    listed: Annotated[
        Path | None,
        typer.Option(
            "--list",
            metavar="FILE",
            help="The coordinator's signed list, saved as a file (its page /log offers it); then nobody is asked.",
        ),
    ] = None,
    ca_file: Path | None = connection.ca_file(),
    as_json: JsonTarget = None,
) -> None:
    """Check that a coordinator published this release, and that nothing was changed since.

    Document and certificate are checked with it, against the coordinator's signed list: the one that it shows now
    (--coordinator), a saved one (--list), or the part that FILE holds. For the last of these, the coordinator's key
    must be given, or be known on this machine. This does not show that an answer was computed as its certificate says.

    Exit status 1: something does not fit, or the release is not signed.
    Example: thebes verify release.json --coordinator https://thebes.example
    """
    from thebes.privacy.reading import NotJSON, read_json
    from thebes.requestor.signed_release import bytes_of, saved_record
    from thebes.requestor.verification import verify as verified
    from thebes.wire.list_pin import is_fingerprint

    if key is not None and not is_fingerprint(key := "".join(key.split()).lower()):
        raise Mistake("--key", "must be the 64 hexadecimal digits that the coordinator's list page shows")
    record = saved_record(file)
    if listed is not None:
        try:
            body = read_json(bytes_of(listed))
        except NotJSON as error:
            raise Mistake("--list", f"{str(listed)!r} {error}") from None
        told = verified(record, key=key, saved=body if isinstance(body, dict) else {})
    elif coordinator:
        with connection.server_at(coordinator, None, ca_file) as server:
            told = verified(record, key=key, client=server.client)
    else:
        told = verified(record, key=key)
    if as_json is not None:
        write_json(as_json, told.as_json())
    else:
        typer.echo(str(told))

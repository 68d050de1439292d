"""`thebes backup` and `thebes restore`: a home as one file, and back; `thebes settle`: what came back otherwise."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from thebes.cli.output import json_option, write_json
from thebes.privacy.faults import Mistake

_Passphrase = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file", metavar="FILE", help="A file whose first line is the passphrase that encrypts the copy."
    ),
]


def backup(
    home: Annotated[
        Path,
        typer.Argument(
            metavar="HOME", help="The home of a person, a site or a coordinator, or the folder of a ledger."
        ),
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The copy: a new file outside the home.")],
    passphrase_file: _Passphrase = None,
    move: Annotated[
        bool,
        typer.Option("--move", help="Move a person's home to another device: from then on this one spends nothing."),
    ] = False,
    as_json: str | None = json_option(),
) -> None:
    """Copy a home as it is at this moment into one file; its processes may go on running. The keys of tasks are not
    copied.

    Example: thebes backup /var/lib/thebes --to /backup/2026-11-22.thebes --passphrase-file /root/passphrase
    """
    from thebes.cli.homes import copy as copying

    made = copying.backup(home, to, passphrase=_passphrase(passphrase_file), move=move)
    if passphrase_file is None:
        _warn(f"{to} is not encrypted: anybody who reads it has the keys and everything in this home")
    _told(made, f"{made.files} files of a {made.role}'s home are in {to}", as_json)
    if move and as_json is None:
        typer.echo(f"- {home} spends nothing any more; delete it once the copy is back on the other device")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that `thebes backup` wrote.")],
    home: Annotated[Path, typer.Option("--home", metavar="HOME", help="A new or empty folder.")],
    passphrase_file: _Passphrase = None,
    as_json: str | None = json_option(),
) -> None:
    """Restore a copy into an empty folder.

    Its ledger is frozen, because a copy has forgotten what was spent since it was made.

    Example: thebes restore /backup/2026-11-22.thebes --home /var/lib/thebes --passphrase-file /root/passphrase
    """
    from thebes.cli.homes import copy as copying

    made = copying.restore(file, home, passphrase=_passphrase(passphrase_file))
    when = datetime.fromtimestamp(made.made_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    _told(made, f"{home} is the {made.role}'s home again as it was at {when}", as_json)


def settle(
    home: Annotated[
        Path, typer.Option("--home", metavar="HOME", help="The coordinator's home; stop the coordinator first.")
    ],
    store: Annotated[str | None, typer.Option(help="postgresql://..., unless its database is in the home.")] = None,
    as_json: str | None = json_option(),
) -> None:
    """Make a coordinator safe after its database was set back (by pg_restore, or a standby that lagged).

    Its trusted tasks that were under way end, because no task may be answered twice, with different noise each time.

    Example: thebes settle --home /var/lib/thebes --store postgresql:///thebes
    """
    from thebes.cli.homes.roles import check_coordinators
    from thebes.coordinator.storage import restored_home
    from thebes.wire.local_server import Hold

    check_coordinators(home, store)
    with closing(Hold(home)):
        ended = restored_home.settle(home, store)
    if as_json is not None:
        write_json(as_json, {"failed": ended})
    else:
        typer.echo(f"Open trusted tasks that ended as failed: {ended}. The coordinator may be started.")


def _passphrase(file: Path | None) -> str | None:
    """The first line of the file, for its owner's eyes only."""
    if file is None:
        return None
    try:
        text = file.read_text(encoding="utf-8")
        open_to_others = file.stat().st_mode & 0o077
    except FileNotFoundError:
        raise Mistake("--passphrase-file", f"there is no file {str(file)!r}") from None
    except (OSError, UnicodeDecodeError):
        raise Mistake("--passphrase-file", f"{str(file)!r} cannot be read as text") from None
    if open_to_others:
        _warn(f"others can read {file}; run: chmod 600 on it")
    return text.partition("\n")[0].rstrip("\r")


def _told(made: Any, sentence: str, as_json: str | None) -> None:
    if as_json is not None:
        told = {"role": str(made.role), "files": made.files, "made_at": made.made_at, "notices": list(made.notices)}
        write_json(as_json, told)
        return
    typer.echo(f"{sentence}.")
    for notice in made.notices:
        typer.echo(f"- {notice}")


def _warn(sentence: str) -> None:
    typer.echo(f"thebes: warning: {sentence}", err=True)

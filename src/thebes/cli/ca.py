"""`thebes ca`: which institutions may link their sites to a coordinator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thebes.cli import output
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.coordinator.auth.authority import CertificateAuthority
    from thebes.coordinator.auth.join_codes import JoinCodes

app = typer.Typer(
    help="Invite sites; issue, list and revoke the certificates by which a coordinator knows them; end an authority.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Site = Annotated[str, typer.Argument(metavar="NAME", help="The site, as its certificate names it.")]
_Home = Annotated[Path, typer.Option(envvar="THEBES_HOME", help="The coordinator's home.")]


@app.command()
def init(
    home: _Home,
    key: Annotated[
        str | None, typer.Option(help="Make its key in a PKCS#11 token: pkcs11:token=...;object=...?module-path=...")
    ] = None,
) -> None:
    """Make the coordinator's authority, with its key in a file or in a PKCS#11 token. Where there is no authority, the
    other commands make one with its key in a file.

    Example: thebes ca init --home /var/lib/thebes
    """
    authority = _authority(home)
    made = authority.init(key)
    typer.echo(f"{'A new authority' if made else 'The authority was there already'}: SHA-256 {authority.fingerprint}")


@app.command()
def issue(
    name: _Site,
    home: _Home,
    out: Annotated[Path, typer.Option(help="The site's home; the files go into its folder `link`.")],
    days: Annotated[int, typer.Option(help="Days for which it is valid.")] = 30,
) -> None:
    """Give a site a key and a certificate; the same command renews them. Bring the folder to the site in a way that you
    trust.

    Example: thebes ca issue north-hospital --home /var/lib/thebes --out ./north-hospital
    """
    issued = _authority(home).issue(name, out, days=days)
    typer.echo(f"{out / 'link'} makes its holder the site {name} until {issued.ends:%Y-%m-%d %H:%M} UTC.")


@app.command()
def invite(
    name: _Site,
    home: _Home,
    hours: Annotated[int, typer.Option(help="Hours for which the code is valid.")] = 72,
    days: Annotated[int, typer.Option(help="Days for which its certificate is valid.")] = 30,
    out: Annotated[
        Path | None, typer.Option(help="A new file for the code, which only you can read; without this it is printed.")
    ] = None,
    json: str | None = output.json_option(),
) -> None:
    """Make a one-time join code for a site, to be handed to its steward and to nobody else. The site's key is made at
    the site and stays there. A new code for the same site ends the earlier one.

    Example: thebes ca invite north-hospital --home /var/lib/thebes
    """
    with contextlib.nullcontext() if out is None else _new_file(out) as write:  # before an earlier code ends
        code, until = _codes(home).make(name, by="the coordinator's home", hours=hours, days=days)
        if write is not None:
            write(str(code))
    if json is not None:
        told = {"site": name, "code": str(code) if out is None else None, "until": until.isoformat()}
        output.write_json(json, told, secret=True)
        return
    typer.echo(f"{out or code}")
    typer.echo(
        f"The first to use this code becomes the site {name}, until {until:%Y-%m-%d %H:%M} UTC. There: "
        "thebes site join URL --home SITE_HOME",
        err=True,
    )


@app.command()
def revoke(name: _Site, home: _Home) -> None:
    """Stop a site from taking part. All its certificates and its join code stop counting within a second, even while
    the site is linked.

    Example: thebes ca revoke north-hospital --home /var/lib/thebes
    """
    if (codes := _codes(home).withdraw(name)) and name not in _authority(home).sites():
        typer.echo(f"The join code of {name} is no longer valid; it had no certificate.")
        return
    count = _authority(home).revoke(name)
    if codes:
        typer.echo(f"The join code of {name} is no longer valid.")
    typer.echo(
        f"{count} certificate{' of' if count == 1 else 's of'} {name} {'is' if count == 1 else 'are'} no longer valid."
    )


@app.command("list")
def list_(home: _Home, json: str | None = output.json_option()) -> None:
    """List every certificate that was issued to a site, whether it counts, and what became of every join code.

    Example: thebes ca list --home /var/lib/thebes
    """
    from datetime import UTC, datetime

    from thebes.coordinator.auth.site_certificates import as_json

    now = datetime.now(UTC)
    authority = _authority(home)
    known = sorted(authority.certificates().values(), key=lambda each: (each.site, each.issued))
    codes = [each.as_json(now) for each in _codes(home).all()]
    if json is not None:
        output.write_json(json, [as_json(each, now) for each in known])
        return
    *old, newest = [each.number for each in authority.signers()] or [1]
    for each in known:
        whose = "" if not old else "  new authority" if each.signer == newest else "  old authority"
        came = "  has not come yet" if whose and each.came is None and each.signer == newest else ""
        typer.echo(
            f"{each.site}  {each.state(now)}  until {each.ends:%Y-%m-%d %H:%M} UTC  {each.serial:x}{whose}{came}"
        )
    if not known:
        typer.echo("No site has a certificate yet; thebes ca invite NAME makes a code by which it gets one.")
    for code in codes:
        typer.echo(
            f"{code['site']}  join code {code['state']}  made {_minute(code['made'])} by {code['by']}  "
            + (f"until {_minute(code['until'])} UTC" if code["at"] is None else f"ended {_minute(code['at'])} UTC")
            + (f"  {code['wrong']} wrong" if code["wrong"] else "")
        )
    if old:
        typer.echo(f"Two authorities are valid. {_still(authority)}")


@app.command("end-old")
def end_old(
    home: _Home,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="End it even if that shuts a site out, or the key's token is not connected."),
    ] = False,
) -> None:
    """End the old authority after `thebes rotate ca`. Its certificates stop counting within a second, and its key is
    deleted. This is refused while a site has not yet come with a new certificate, or while the token that holds the key
    is not connected.

    Example: thebes ca end-old --home /var/lib/thebes
    """
    authority = _authority(home)
    ended = authority.end_old(anyway=anyway, tell=lambda told: typer.echo(f"thebes: warning: {told}", err=True))
    said = "The old authority has ended. The valid one" if ended else "There is no old authority. The valid one"
    typer.echo(f"{said}: SHA-256 {authority.fingerprint}")


def _still(authority: CertificateAuthority) -> str:
    """Say what keeps the old authority from its end."""
    from thebes.coordinator.auth.site_certificates import few

    behind = authority.behind()
    if not behind:
        return "No site needs the old one: thebes ca end-old"
    return f"Not yet come with a certificate of the new one: {few(behind)}. Bring each its link/: thebes ca issue NAME"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


@contextlib.contextmanager
def _new_file(out: Path) -> Iterator[Callable[[str], object]]:
    """Give what writes into a new file, for its owner alone, which is gone again where nothing was written."""
    import os

    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Mistake("--out", f"must be a file that does not exist yet ({error.strerror})") from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            yield lambda code: file.write(f"{code}\n")
    except BaseException:
        out.unlink()
        raise


def _codes(home: Path) -> JoinCodes:
    from thebes.coordinator.auth.join_codes import JoinCodes
    from thebes.coordinator.clock import SystemClock

    return JoinCodes(_authority(home), SystemClock())


def _authority(home: Path) -> CertificateAuthority:
    from thebes.coordinator.auth.authority import CertificateAuthority
    from thebes.coordinator.clock import SystemClock

    if not home.is_dir():
        raise Mistake("--home", f"there is no directory {str(home)!r}")
    return CertificateAuthority(home, SystemClock())

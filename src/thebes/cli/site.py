"""`thebes site`: an institution's node as a process, and the first files of its home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thebes.cli import connection
from thebes.cli.help_pages import Commands
from thebes.cli.one_time_codes import code_of
from thebes.cli.output import LogForm
from thebes.privacy.faults import Mistake

app = typer.Typer(
    help="Answer a coordinator's questions about an institution's rows, as far as its policy allows.\n\n"
    "Example: thebes site --home /var/lib/thebes-site --coordinator coordinator.example:8443",
    cls=Commands,
    invoke_without_command=True,
    rich_markup_mode=None,
)

_HomeOption = typer.Option("--home", envvar="THEBES_HOME", help="The site's folder.")


@app.callback()
def site(
    ctx: typer.Context,
    home: Annotated[Path | None, _HomeOption] = None,
    coordinator: Annotated[
        str | None,
        typer.Option(
            "--coordinator", metavar="HOST:PORT", help="The coordinator's address and port for sites, HOST:PORT."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of its own page on 127.0.0.1; 0 takes a free one.")] = 0,
    open_: Annotated[
        bool, typer.Option("--open", help="Print a new one-time address of the one that runs, for a browser.")
    ] = False,
    log: LogForm = "text",
) -> None:
    """Run a site until SIGTERM. It dials out and opens no port to the network; nothing is answered that
    HOME/policy.toml does not allow. Prints one line of JSON when its own page listens, with an address of it that
    works once.

    Example: thebes site --home /var/lib/thebes-site --coordinator coordinator.example:8443
    """
    if ctx.invoked_subcommand is not None:
        return
    import os

    from thebes.site.home import SiteHome
    from thebes.site.supervisor import Supervisor
    from thebes.wire import log_output
    from thebes.wire.local_server import HomeInUse

    if home is None:
        raise Mistake("--home", "is missing: the site's folder, made by `thebes site init --home DIR`")
    os.umask(0o077)
    if open_:
        from thebes.site.client import running

        with running(home) as distant:
            typer.echo(distant.address())
        return
    if coordinator is None:
        raise Mistake("--coordinator", "is missing: HOST:PORT, as `thebes coordinator --site-port` tells it")
    log_output.choose(log)
    pages = "thebes.web.site.pages:put_on"
    try:
        supervisor = Supervisor(SiteHome(home), coordinator=_address(coordinator), port=port, pages=pages)
    except HomeInUse as used:
        raise HomeInUse(f"{used}; for a new address of its pages: thebes site --home {home} --open") from None
    supervisor.run()


@app.command()
def init(home: Annotated[Path, _HomeOption]) -> None:
    """Make a site's folder, with a policy that allows nothing yet and an example of a data set's schema.

    Example: thebes site init --home /var/lib/thebes-site
    """
    from thebes.database import private_files
    from thebes.site.home import SiteHome
    from thebes.site.steward.example_files import POLICY, SCHEMA

    made = SiteHome(home)
    for name, text in (("policy.toml", POLICY), ("schema.example.toml", SCHEMA)):
        path = made.folder / name
        if path.exists():
            typer.echo(f"{path} is there already and stays as it is")
            continue
        private_files.write(path, text)
        typer.echo(f"{path} is new")
    typer.echo(
        "Next: declare a data set (thebes dataset create), say in policy.toml who may ask about it, and join a "
        "coordinator by the code that its operator makes (thebes ca invite NAME): "
        f"thebes site join URL --home {made.folder}"
    )


@app.command()
def join(
    url: Annotated[str, typer.Argument(help="The coordinator's address for people and browsers.")],
    home: Annotated[Path, _HomeOption],
    code_stdin: Annotated[bool, typer.Option("--code-stdin", help="Read the code from standard input.")] = False,
    code_file: Annotated[Path | None, typer.Option("--code-file", help="Read the code from this file.")] = None,
    ca_file: Path | None = connection.ca_file(),
    proxy: Annotated[
        str | None, typer.Option(help="A proxy to ask through: http://HOST:PORT, or socks5h://HOST:PORT.")
    ] = None,
) -> None:
    """Join a coordinator with the one-time code that its operator gave you; you are asked for the code. The key is made
    here and stays here. If it was broken off, the same command goes on from there; a new code renews the certificate,
    even while the site runs.

    Example: thebes site join https://coordinator.example --home /var/lib/thebes-site
    """
    from thebes.site.home import SiteHome
    from thebes.site.link.joining import join as join_by
    from thebes.wire.client import CoordinatorClient
    from thebes.wire.join_codes import JoinCode

    code = JoinCode.read(
        code_of(
            None,
            from_stdin=code_stdin,
            file=code_file,
            options="--code-stdin or --code-file",
            prompt="The join code: ",
        )
    )
    place = SiteHome(home)
    with CoordinatorClient(url, ca_file=ca_file, proxy=proxy) as door:
        joined = join_by(place, code, door)
    typer.echo(f"This home is the site {joined.name} until {joined.ends:%Y-%m-%d %H:%M} UTC; its key is here alone.")
    typer.echo(f"Next, with its port for sites: thebes site --home {place.folder} --coordinator HOST:PORT")


@app.command()
def helper(home: Annotated[Path, _HomeOption]) -> None:
    """Print the fingerprint by which people know this site as a helper, the second server of tasks they answer. Publish
    it where nobody but your institution can write; the key is made when this is first run.

    Example: thebes site helper --home /var/lib/thebes-site
    """
    from thebes.site.helping.keys import HelperKeys
    from thebes.site.home import SiteHome

    typer.echo(HelperKeys(SiteHome(home).folder).identity().fingerprint)


def _address(text: str) -> str:
    """HOST:PORT as it is dialled; refused where the environment names a proxy for it that a site would go past."""
    from thebes.site.link.proxy import is_usable, proxy_of

    host, colon, port = text.rpartition(":")
    if "//" in text or not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Mistake("--coordinator", "must be HOST:PORT, the `site_url` in the coordinator's ready line")
    proxy = proxy_of(text)
    if proxy is not None and not is_usable(proxy):  # its address is not shown: it may hold a password
        raise Mistake(
            "--coordinator",
            "is reached by the proxy that the environment names (https_proxy or grpc_proxy), but that is not one of "
            "HTTP, so a site would go past it; name one that begins with http://, or its host in no_proxy",
        )
    return text

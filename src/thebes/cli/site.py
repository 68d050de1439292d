"""`thebes site`: an institution's node as a process, and the first files of its home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thebes.cli.help_pages import Commands
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
        typer.Option("--coordinator", metavar="HOST:PORT", help="Where its coordinator listens for sites."),
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
    from thebes.site.home import SiteHome, written
    from thebes.site.steward.example_files import POLICY, SCHEMA

    made = SiteHome(home)
    for name, text in (("policy.toml", POLICY), ("schema.example.toml", SCHEMA)):
        path = made.folder / name
        if path.exists():
            typer.echo(f"{path} is there already and stays as it is")
            continue
        written(path, text)
        typer.echo(f"{path} is new")
    typer.echo(
        "Next: declare a data set (thebes dataset create), say in policy.toml who may ask about it, and put the "
        f"certificate that the coordinator's operator makes into {made.link} "
        f"(thebes ca issue NAME --home COORDINATOR_HOME --out {made.folder})."
    )


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

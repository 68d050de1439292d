"""`thebes session`: the sessions that go on at a coordinator, and their end."""

from __future__ import annotations

from pathlib import Path

import typer

from thebes.cli import connection, output

app = typer.Typer(
    help="List who is signed in at a coordinator, and end sessions.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """List your sessions: browsers, programs that were let in, logins with a password. An operator sees everybody's.

    Example: thebes session list --coordinator http://127.0.0.1:8000
    """
    from thebes.wire.problems import printable

    with connection.server_at(coordinator, token, ca_file) as server:
        found = server.client.sessions()
    if json is not None:
        output.write_json(json, found)
        return
    for each in found:
        told = {name: printable(each.get(name)) for name in ("id", "user", "client", "began", "until")}
        typer.echo("{id}  {user}  {client}  since {began}  until {until}".format(**told))
    if not found:
        typer.echo("No session goes on, or they began with the operator's token, which are not listed.")


@app.command()
def end(
    session: str = typer.Argument(..., metavar="ID", help="As `thebes session list` tells it."),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
) -> None:
    """End a session at once, wherever its token is: one of your own or, if you are an operator, anybody's.

    Example: thebes session end 0123456789abcdef0123456789abcdef --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        server.client.end_session(session)
    typer.echo("That session has ended.")

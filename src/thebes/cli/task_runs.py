"""`thebes task submit|quote|list|show|wait|cancel`: run tasks at a coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thebes.cli import connection, output
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.requestor.quote import Quote


def _id() -> Any:
    return typer.Argument(..., metavar="ID", help="The task's id, as submit and list print it.")


def submit(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    wait: bool = typer.Option(False, "--wait", help="Wait for the answer and print it."),
    timeout: float | None = connection.timeout(),
    json: str | None = output.json_option(),
) -> None:
    """Put a document up as a task and print its id, its digest and what one contributor pays.

    Example: thebes task submit median.json --coordinator http://127.0.0.1:8000 --wait
    """
    if timeout is not None and not wait:
        raise Mistake("--timeout", "goes with --wait")
    document = output.read_document(task)
    with connection.server_at(coordinator, token, ca_file) as server:
        price = server.quote(document)
        output.doubt(price.price.epsilon, price.price.delta)
        handle = server.submit(document)
        told = {"task_id": handle.task_id, "digest": handle.digest, "price": price.price.as_json()}
        if json is None or wait:
            typer.echo(f"task    {handle.task_id}\ndigest  {handle.digest}\nprice   {price}", err=json is not None)
        if not wait:
            if json is not None:
                output.write_json(json, told)
            return
        _finish(handle, timeout, json, told)


def quote(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """Say what one contributor would pay at most. For a question to sites, say also whether each site would answer now,
    and what it expects to charge. Nothing is put up. Status 1 if too few sites would answer.

    Example: thebes task quote count.json --coordinator http://127.0.0.1:8000
    """
    document = output.read_document(task)
    with connection.server_at(coordinator, token, ca_file) as server:
        found = server.quote(document)
    output.doubt(found.price.epsilon, found.price.delta)
    if json is None:
        typer.echo(f"price   {found}")
        _end(found)
        return
    until = None if found.expires_at is None else found.expires_at.isoformat()
    told = {"price": found.price.as_json(), "expires_at": until}
    if found.in_all:
        told["price"] = {**found.price.as_json(), "in_all": dict(found.in_all)}
    if found.choice:
        told["choice"] = dict(found.choice)
    if found.mixed:
        told["mixed"] = dict(found.mixed)
    asked = {"sites": dict(found.sites), "missing": dict(found.missing)} if found.sites or found.missing else {}
    if found.verdicts:
        asked |= {
            "allowed": found.allowed,
            "needed": found.needed,
            "verdicts": {site: vars(one) for site, one in found.verdicts.items()},
        }
    output.write_json(json, {**told, **asked})
    _end(found)


def _end(quote: Quote) -> None:
    """End with status 1 where the task would end without an answer."""
    if quote.allowed is False:
        raise typer.Exit(1)


def list_(
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """List the open tasks.

    Example: thebes task list --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        found = server.tasks()
    if json is not None:
        output.write_json(json, found)
        return
    typer.echo(repr(found))


def show(
    task_id: str = _id(),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """Show where a task stands, and its latest answer with its certificate.

    Example: thebes task show 5f0c1d --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        body = server.task(task_id).show()
    if json is not None:
        output.write_json(json, body)
        return
    refusals = list(_refusals(body))
    why = ": too few sites answered" if refusals and body.get("status") == "expired" else ""
    typer.echo(f"status  {_word(body, 'status')}{why}")
    for name in ("reason", "contributions", "min_count"):
        if body.get(name) is not None:
            typer.echo(f"{name:<7} {_word(body, name)}")
    if waits := _how_far(body):
        typer.echo(f"waits   {waits}")
    for line in refusals:
        typer.echo(line)
    if body.get("result") is not None:
        _print_release(body["result"])


def wait(
    task_id: str = _id(),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    timeout: float | None = connection.timeout(),
    json: str | None = output.json_option(),
) -> None:
    """Wait until a task has an answer and print it. Status 1 when it ends without one, or at --timeout.

    Example: thebes task wait 5f0c1d --timeout 600 --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        _finish(server.task(task_id), timeout, json, {})


def cancel(
    task_id: str = _id(),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """End a task without an answer. What people already paid for it stays paid.

    Example: thebes task cancel 5f0c1d --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        server.task(task_id).cancel()
    if json is not None:
        output.write_json(json, {"task_id": task_id, "status": "cancelled"})
        return
    typer.echo(f"task {task_id} is cancelled")


def close(
    task_id: str = _id(),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    json: str | None = output.json_option(),
) -> None:
    """End a task that is trained without end, and keep its last answer.

    Example: thebes task close 5f0c1d --coordinator http://127.0.0.1:8000
    """
    with connection.server_at(coordinator, token, ca_file) as server:
        server.task(task_id).close()
    if json is not None:
        output.write_json(json, {"task_id": task_id, "status": "closed"})
        return
    typer.echo(f"task {task_id} is closed; its last answer stays")


#: name -> function, for whoever wires the command
COMMANDS: dict[str, Callable[..., None]] = {
    "submit": submit,
    "quote": quote,
    "list": list_,
    "show": show,
    "wait": wait,
    "cancel": cancel,
    "close": close,
}


def _finish(handle: Any, timeout: float | None, json: str | None, told: Mapping[str, Any]) -> None:
    body = handle.finished(timeout)
    if json is not None:
        output.write_json(json, {**told, **body})
        return
    if body.get("result") is None:
        typer.echo("done, without a release")
        return
    _print_release(body["result"])


def _how_far(body: Mapping[str, Any]) -> str:
    from thebes.requestor.handle import how_far

    return how_far(body)


def _print_release(result: Any) -> None:
    from thebes.tasks.release_reader import release_from_json
    from thebes.wire.problems import printable

    for line in str(release_from_json(result)).splitlines():  # a server's words: nothing that moves the cursor
        typer.echo(printable(line, 10_000))


def _refusals(body: Mapping[str, Any]) -> Iterator[str]:
    """The sites that are not in the answer of a task, each with why; and that nobody paid, where nobody can have."""
    from thebes.wire.problems import printable
    from thebes.wire.refused_sites import NOBODY_CHARGED, nobody_charged, why

    told = body.get("refusals")
    for site, one in (told if isinstance(told, Mapping) else {}).items():
        if isinstance(one, Mapping):
            yield f"missing {printable(str(site))}: {printable(why(one.get('reason'), one.get('message')))}"
    if nobody_charged(body):
        yield f"charged {NOBODY_CHARGED}"


def _word(body: Mapping[str, Any], name: str) -> str:
    from thebes.wire.problems import printable

    return printable(str(body.get(name)))

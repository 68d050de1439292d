"""`thebes sql`: ask sites in SQL."""

from __future__ import annotations

from pathlib import Path

import typer

from thebes.cli import connection, output


def sql(
    text: str = typer.Argument(..., metavar="SELECT", help="One SELECT over a data set, in quotes."),
    epsilon: float = typer.Option(
        ..., "--epsilon", help="Epsilon that one person pays at each site, for the whole question."
    ),
    delta: float = typer.Option(0.0, "--delta", help="The same for delta; a small one makes many columns more exact."),
    coordinator: str | None = connection.coordinator(),
    token: str | None = connection.token(),
    ca_file: Path | None = connection.ca_file(),
    sites: str | None = typer.Option(None, "--sites", help="Which sites, with commas between; all, if not given."),
    noise: str | None = typer.Option(None, "--noise", help='"site", or "coordinator" for one noise over all sites.'),
    max_groups_per_person: int = typer.Option(
        1,
        "--max-groups-per-person",
        help="Where groups are found: in how many of them one person counts.",
    ),
    explain: bool = typer.Option(False, "--explain", help="Only say what would be asked. Nothing is put up or paid."),
    timeout: float | None = connection.timeout(),
    json: str | None = output.json_option(),
) -> None:
    """Ask sites in SQL. Every number comes with its error bar; ORDER BY, HAVING and arithmetic cost nothing.

    Example: thebes sql "SELECT ward, COUNT(*), AVG(age) FROM patients WHERE age > 18 GROUP BY ward" --epsilon 1
    """
    asked = "all" if sites is None else [name.strip() for name in sites.split(",")]
    with connection.server_at(coordinator, token, ca_file) as server:
        question = server.explain_sql(
            text, epsilon, delta, sites=asked, noise=noise, max_groups_per_person=max_groups_per_person
        )
        if explain:
            if json is not None:
                output.write_json(json, {"document": question.document, "explanation": question.explanation})
                return
            typer.echo(question.explanation)
            return
        output.doubt(epsilon, delta)
        answer = question.answer(server.submit(question.document).wait(timeout))
    if json is not None:
        output.write_json(json, answer.as_json())
        return
    typer.echo(str(answer))

"""`thebes task`: write and price documents, offline."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from thebes.cli import output
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.tasks.document import Document

app = typer.Typer(help="Write, price and run tasks; check, explain and plan work offline.", no_args_is_help=True)


def _unpriced(document: Document) -> bool:
    """Return whether the document says how exact the answer is to be, and not what that may cost."""
    from thebes.tasks.site_document import SiteDocument

    return isinstance(document, SiteDocument) and not document.priced and document.as_json().get("max_epsilon") is None


@app.command()
def check(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    json: str | None = output.json_option(),
) -> None:
    """Refuse what cannot work, naming the field; otherwise print digest and price.

    Example: thebes task check median.json
    """
    from thebes.tasks import registry
    from thebes.tasks.mixed_reports import mixed_words
    from thebes.tasks.posting_rules import check_postable

    document = registry.check(output.read_document(task))
    check_postable(document, datetime.now(UTC))
    if _unpriced(document):
        if json is not None:
            output.write_json(json, {"digest": document.digest, "price": None, "document": document.as_json()})
            return
        typer.echo(f"digest  {document.digest}")
        typer.echo("price   what this accuracy costs the sites say: thebes task quote")
        return
    cost = registry.drawn(document.type).price(document)
    output.doubt(cost.epsilon, cost.delta)
    price = cost.as_json()
    mixed = getattr(document, "promised", None)
    if json is not None:
        told = {"digest": document.digest, "price": price, "document": document.as_json()}
        output.write_json(json, told if mixed is None else {**told, "mixed": mixed})
        return
    typer.echo(f"digest  {document.digest}")
    payer = f"one {price['unit']}"
    if document.type in registry.site_types():
        payer = "one unit (person or event, as the data set's schema says) at each site that answers"
    typer.echo(f"price   epsilon {figure(price['epsilon'])}, delta {figure(price['delta'])} for {payer}")
    if mixed is not None:
        typer.echo(mixed_words(mixed))


@app.command()
def explain(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document."),
    json: str | None = output.json_option(),
) -> None:
    """Say in plain words what a person would be told.

    Example: thebes task explain median.json
    """
    from thebes.tasks import registry

    document = registry.check(output.read_document(task))
    words = registry.drawn(document.type).explain(document)
    if not _unpriced(document):
        price = registry.drawn(document.type).price(document)
        output.doubt(price.epsilon, price.delta)
    if json is not None:
        output.write_json(json, {"explanation": words})
        return
    typer.echo(words)


@app.command()
def plan(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document; the command looks for its epsilon."),
    within: float | None = typer.Option(
        None, help="How far the answer may be off, in its own units; if it is several numbers, each of them."
    ),
    mixed: float | None = typer.Option(
        None,
        help="Instead of --within: the epsilon against somebody who sees the answers and cannot tell whose is whose.",
    ),
    people: int = typer.Option(..., min=1, help="How many people would take part."),
    data: Path | None = typer.Option(
        None, help="A table of people like them; without one they are spread evenly over the bounds."
    ),
    share: float = typer.Option(0.95, help="How often the answer must be that close."),
    json: str | None = output.json_option(),
) -> None:
    """Say which epsilon a task needs, by simulating it; or, with --mixed, which one mixed answers allow.

    Example: thebes task plan median.json --within 2 --people 1000
    """
    if (within is None) == (mixed is None):
        raise Mistake(
            "--within", "or --mixed: give one of the two, how close the answer must be or what mixed answers may tell"
        )
    if mixed is not None:
        _plan_mixed(output.read_document(task), mixed, people, json)
        return
    assert within is not None  # noqa: S101
    from thebes.simulation.people_file import people_like
    from thebes.simulation.sweeps import plan as find
    from thebes.tasks import registry

    document = output.read_document(task)
    with output.told_warnings():
        checked = registry.check({**document, "epsilon": document.get("epsilon", 1.0)})
        rows = None if data is None else people_like(checked, data)
        found = find(document, within=within, people=people, rows=rows, share=share)
    if json is not None:
        output.write_json(json, {"epsilon": found.epsilon, "within": within, "people": people, "share": share})
        return
    typer.echo(
        f"epsilon {figure(found.epsilon, 3)}: {share:.0%} of the answers from {people} people come within "
        f"{figure(found.reached, 3)} of the truth about them"
    )


def _plan_mixed(document: dict[str, Any], mixed: float, people: int, json: str | None) -> None:
    from thebes.tasks.mixed_document import planned
    from thebes.tasks.mixed_reports import mixed_words

    found = planned(document, mixed=mixed, people=people)
    promised = found.promised
    assert promised is not None  # noqa: S101
    if json is not None:
        output.write_json(json, {"epsilon": found.epsilon, "people": people, "mixed": promised})
        return
    typer.echo(f"epsilon {figure(found.epsilon, 3)} for each of {people} people\n{mixed_words(promised)}")


@app.command()
def curve(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document; the command varies its epsilon."),
    people: list[int] = typer.Option([100, 1000, 10_000], min=1, help="How many people; give it again for more."),
    epsilon: list[float] = typer.Option([0.1, 1.0, 8.0], help="What each pays; give it again for more."),
    data: Path | None = typer.Option(
        None, help="A table of people like them; without one they are spread evenly over the bounds."
    ),
    repeats: int = typer.Option(20, min=1, help="How often each is simulated."),
    json: str | None = output.json_option(),
) -> None:
    """Print how exact an answer is for each epsilon and number of people, beside an answer without noise and a guess.

    Example: thebes task curve median.json --people 100 --people 1000 --epsilon 0.1 --epsilon 1
    """
    from thebes.simulation.error_curve import error_curve
    from thebes.simulation.people_file import people_like
    from thebes.tasks import registry

    document = output.read_document(task)
    with output.told_warnings():
        checked = registry.check({**document, "epsilon": document.get("epsilon", 1.0)})
        rows = None if data is None else people_like(checked, data)
        points = error_curve(document, rows, epsilons=epsilon, people=people, repeats=repeats)
    if json is not None:
        output.write_json(json, {"measure": points[0].measure, "points": [point.as_json() for point in points]})
        return
    typer.echo(f"{points[0].measure}:")
    typer.echo(f"{'people':>8} {'epsilon':>8} {'error':>12} {'not private':>12} {'guessing':>12}")
    for point in points:
        guess = "" if point.guessing is None else figure(point.guessing, 3)
        shown = f"{figure(point.error, 3):>12} {figure(point.not_private, 3):>12} {guess:>12}"
        typer.echo(f"{point.people:>8} {figure(point.epsilon, 3):>8} {shown}")


@app.command()
def trust(
    task: Path = typer.Argument(..., metavar="TASK.json", help="The task document, of people."),
    people: int | None = typer.Option(
        None, min=1, help="How many people would take part; by default the document's min_count."
    ),
    repeats: int = typer.Option(100, min=3, help="How often each is simulated."),
    json: str | None = output.json_option(),
) -> None:
    """Compare how exact a question's answer is, depending on whom one trusts: nobody, mixed, two servers, one server.

    Example: thebes task trust mean.json --people 10000
    """
    from thebes.simulation.trust_errors import as_lines, trust_errors
    from thebes.tasks import registry

    document = registry.check(output.read_document(task))
    found = trust_errors(document, people=people, repeats=repeats)
    if json is not None:
        output.write_json(json, {"models": [one.as_json() for one in found]})
        return
    typer.echo("\n".join(as_lines(found)))

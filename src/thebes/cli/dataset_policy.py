"""`thebes dataset grant` and `revoke`: who may ask about a data set, written into the site's policy."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from thebes.cli import output
from thebes.cli.names import names
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.site.budget.policy import PolicyRule
    from thebes.site.dataset import DataSet
    from thebes.site.home import SiteHome


def grant(
    name: output.DataSetName,
    home: output.SiteFolder,
    to: Annotated[list[str], typer.Option("--to", help="Who may ask, with commas between; * is everybody.")],
    kinds: Annotated[list[str], typer.Option("--kinds", help="Which kinds of task, with commas between; * is all.")],
    epsilon: Annotated[float, typer.Option(help="The most that they may spend here together.")],
    delta: Annotated[float | None, typer.Option(help="The same for delta; by default the data set's own.")] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(
            help="Where noise may be added: site (default); coordinator, then exact totals leave this site; split, "
            "then shares leave it, see --helpers."
        ),
    ] = None,
    helpers: Annotated[
        list[str] | None,
        typer.Option(help="With --noise split: fingerprints of helpers, as their own institutions publish them."),
    ] = None,
    contexts: Annotated[
        list[str] | None, typer.Option(help="If a column keeps the rows of the data set apart: whose rows; * is all.")
    ] = None,
) -> None:
    """Add a rule to HOME/policy.toml. The first rule that covers a question decides, so earlier rules come first.

    Example: thebes dataset grant patients --home ./site --to ana --kinds query,train --epsilon 2 --delta 1e-6
    """
    from thebes.site.budget.policy import NOISES
    from thebes.site.budget.policy_file import change
    from thebes.site.budget.policy_text import allowed_again, appended, read_policy
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome
    from thebes.tasks import registry

    place = SiteHome(home)
    if name != "*" and name not in DataSets(place).names():
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    asked, who = names("--kinds", kinds), names("--to", to)
    known = registry.site_types()
    unknown = [kind for kind in asked if kind != "*" and kind not in known]
    if unknown:
        raise Mistake("--kinds", f"{unknown[0]!r} is none of {', '.join(known)}")
    grown = DataSets(place).get(name) if name != "*" else None
    apart, within = contexts_of(grown), names("--contexts", contexts) if contexts else []
    if grown is not None and bool(apart) is not bool(within):
        said = (
            f"must say whose rows: of {', '.join(apart)}, or * for all" if apart else "goes with --separate-by COLUMN"
        )
        raise Mistake("--contexts", said)
    stray = [value for value in within if apart and value != "*" and value not in apart]
    if stray:
        raise Mistake("--contexts", f"{stray[0]!r} is none of {', '.join(apart)}")
    granted = exact.epsilon(epsilon, "--epsilon")
    asked_noise = names("--noise", noise) if noise else []
    if strange := [each for each in asked_noise if each not in NOISES]:
        raise Mistake("--noise", f"{strange[0]!r} is none of {', '.join(NOISES)}")
    rule = {
        "requestors": who,
        "datasets": [name],
        "kinds": asked,
        "epsilon": granted,
        "delta": None if delta is None else exact.delta(delta, "--delta"),
        "noise": asked_noise or None,
        "helpers": names("--helpers", helpers) if helpers else None,
        "contexts": within or None,
    }
    text = change(
        place.policy,
        lambda text: appended(allowed_again(text, who, name, asked), rule),
        noted=lambda: _note(place, "allow", who, name, epsilon=str(granted)),
    )
    policy = read_policy(text)
    for earlier in policy.rules[:-1]:
        if not earlier.task and not earlier.ended and _meet(earlier, policy.rules[-1]):
            told = f"comes first, and decides on some of this by its epsilon of {figure(float(earlier.epsilon))}"
            typer.echo(f"thebes: warning: {earlier} {told}; ended = true in it ends that", err=True)
    for refusal in policy.refusals:
        if not refusal.ended and {*refusal.requestors} & {"*", *who} and {*refusal.datasets} & {name, "*"}:
            told = "comes first, and still refuses some of this: ended = true in it ends that."
            typer.echo(f"Refusal {refusal.number} of policy.toml {told}", err=True)
    if grown is not None and granted > grown.budget.epsilon:
        whole = figure(float(grown.budget.epsilon))
        typer.echo(f"thebes: warning: {name} has epsilon {whole} for everybody together; more is never spent", err=True)
    where = "in all" if grown is None or grown.blocks is None else "at each of its blocks"
    whose = f", of {', '.join(within)} alone" if within and "*" not in within else ""
    most = f"epsilon {figure(epsilon)} {where}{whose}"
    typer.echo(f"{', '.join(who)} may ask {', '.join(asked)} about {name}, for {most}.")


def _meet(one: PolicyRule, other: PolicyRule) -> bool:
    """Return whether two rules may be about the same ask."""
    pairs = [(one.requestors, other.requestors), (one.datasets, other.datasets), (one.kinds, other.kinds)]
    pairs.append((one.noise, other.noise))
    if one.contexts or other.contexts:
        pairs.append((one.contexts, other.contexts))
    return all(_overlap(*pair) for pair in pairs)


def _overlap(these: Iterable[str], those: Iterable[str]) -> bool:
    """Return whether somebody or something is named by both, where * is everything."""
    one, other = {*these}, {*those}
    return "*" in one | other or bool(one & other)


def _note(place: SiteHome, action: str, whom: list[str], name: str, **more: str) -> None:
    """Write a decision into the audit log, before it counts."""
    from thebes.site.home import AUDIT
    from thebes.site.steward.audit_log import Audit
    from thebes.site.steward.decisions import DECISION

    with closing(Audit(place.folder / AUDIT)) as audit:
        audit.note((DECISION, {"action": action, "requestor": ", ".join(whom), "dataset": name, **more}))


def revoke(
    name: output.DataSetName,
    home: output.SiteFolder,
    to: Annotated[list[str], typer.Option("--to", help="From whom, with commas between.")],
    reason: Annotated[str, typer.Option(help="What they are told when they ask again.")] = "it was revoked",
) -> None:
    """Stop letting somebody ask about a data set.

    Rules that name only them are removed; where other rules still let them in, a refusal is added. What was spent stays
    spent, and counts when they are let in again.

    Example: thebes dataset revoke patients --home ./site --to ana --reason "the study is over"
    """
    from thebes.site.budget.policy import ANY
    from thebes.site.budget.policy_file import PolicyFile, change
    from thebes.site.budget.policy_text import revoked
    from thebes.site.dataset import DataSets
    from thebes.site.home import SiteHome

    place, whom = SiteHome(home), names("--to", to)
    if name not in DataSets(place).names():
        raise Mistake("NAME", f"there is no data set {name!r} in {place.datasets}")
    rules = [rule for rule in PolicyFile(place.policy)().rules if not rule.ended]
    if not any({*rule.requestors} & {ANY, *whom} and {*rule.datasets} & {ANY, name} for rule in rules):
        typer.echo(f"No rule lets {', '.join(whom)} ask about {name}; nothing was changed.")
        return
    change(
        place.policy,
        lambda text: revoked(text, whom, name, reason),
        noted=lambda: _note(place, "revoke", whom, name),
    )
    typer.echo(
        f"{', '.join(whom)} may not ask about {name} any more. In policy.toml, ended = false lets a rule hold again."
    )


def contexts_of(dataset: DataSet | None) -> tuple[str, ...]:
    """By what the rows of a data set are kept apart; none where they are not."""
    from thebes.curator.streams.terms import DEVELOPER

    terms = None if dataset is None else dataset.stream_terms
    if dataset is None or dataset.blocks is None or terms is None or terms.separate in ("", DEVELOPER):
        return ()
    return dataset.blocks.by.apart_by(terms.separate, dataset.schema).names

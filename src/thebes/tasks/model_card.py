"""The card of a released model: its data, its price, what it is worth, what was proved, and for what it is meant.

What must stay true: a card says nothing that the release, or the document it answers, does not say; it holds no weight
of the model and no number of anybody's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.model_quality import NOT_CHECKED
from thebes.privacy.plain_text import shortened

if TYPE_CHECKING:
    from thebes.tasks.release import Release

Line = tuple[str, str]  #: what is told, and in words
_LONGEST = 300  #: characters of what somebody wrote

#: what no certificate of these says, whoever made the model
_LIMITS = (
    "It was learned under noise: with more epsilon or more people it may say something else.",
    "What it is worth for others than those it was tested on is not known, nor what it does to groups among them.",
    "Its promise is about whom it was learned from. Whoever it is used on is not protected by it.",
)


@dataclass(frozen=True, slots=True)
class CardSection:
    """One part of a card, line by line."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ModelCard:
    """Sections of names and words, the same in text, in HTML and on pages."""

    title: str
    sections: tuple[CardSection, ...]

    @property
    def text(self) -> str:
        """The card as Markdown."""
        pieces = [f"# {self.title}"]
        for section in self.sections:
            pieces += ["", f"## {section.title}", *(f"- {name}: {words}" for name, words in section.lines)]
        return "\n".join(pieces)

    @property
    def html(self) -> str:
        """The card as HTML, everything escaped."""
        told = Markup("").join(
            Markup("<h3>{}</h3><table>{}</table>").format(
                section.title,
                Markup("").join(
                    Markup('<tr><th scope="row">{}</th><td>{}</td></tr>').format(name, words)
                    for name, words in section.lines
                ),
            )
            for section in self.sections
        )
        return str(Markup("<article><h2>{}</h2>{}</article>").format(self.title, told))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<card of {shortened(self.title, 80)}>"

    def _repr_html_(self) -> str:
        return self.html


def card_of(release: Release, document: Mapping[str, Any] | None = None) -> ModelCard:
    """Write the card of a release; `document` is the one it answers, and says for what it was asked. Mistake where no
    model was released."""
    from thebes.tasks.release import Release

    if type(release).model is Release.model:
        raise Mistake("card", "is of models: what was released here is an answer, whose certificate says all of it")
    if not release.answered:
        raise Mistake("card", f"is of models, and none was released: {release.explanation or 'there was no answer'}")
    asked = {name: value for name, value in (document or {}).items() if value is not None}
    return _card(
        str(asked.get("name") or f"A model by {_kind(asked, release)}"),
        data=_data(release, asked),
        worth=_worth(release),
        certificate=release.certificate.as_json(),
        text=release.certificate.text,
        made=[("kind of task", _kind(asked, release)), *_parameters(release.certificate)],
        meant=[(name, str(asked[name])[:_LONGEST]) for name in ("purpose", "contact") if asked.get(name)],
    )


def card_of_bundle(bundle: Mapping[str, Any]) -> ModelCard:
    """Write the card of a model that is kept in a store."""
    lineage, certificate = bundle["lineage"], bundle["certificate"]
    data = [("stream", str(lineage["stream"])), ("blocks", figure(len(lineage["blocks"])))]
    data.append(("inputs", ", ".join(map(str, bundle.get("inputs") or ()))))
    data.append(("output", str(bundle.get("output") or "shares")))
    confidence = f"with confidence {figure(100 * float(bundle['confidence']), 3)} %"
    worth = [
        (str(each["metric"]), f"{figure(float(each['bound']))}, {confidence}: the test of the pipeline was passed")
        for each in bundle.get("validation") or ()
        if each.get("bound") is not None
    ]
    made = [
        ("by", f"{lineage['developer']}, in {figure(lineage['attempts'])} attempts"),
        ("published", str(bundle.get("published_at", "")) or "unknown"),
        ("version", str(bundle["version"])),
    ]
    title = f"{bundle['name']}, version {bundle['version']}"
    found = worth or [("quality", f"{NOT_CHECKED}")]
    text = str(certificate.get("text", ""))
    return _card(title, data=data, worth=found, certificate=certificate, text=text, made=made, meant=[])


def _card(
    title: str,
    *,
    data: Sequence[Line],
    worth: Sequence[Line],
    certificate: Mapping[str, Any],
    text: str,
    made: Sequence[Line],
    meant: Sequence[Line],
) -> ModelCard:
    price = [(name, figure(float(certificate[name]))) for name in ("epsilon", "delta") if name in certificate]
    price += [("for", f"one {certificate['unit']}, in all")] if "unit" in certificate else []
    proved = [("guarantee", str(certificate["guarantee"]))] if "guarantee" in certificate else []
    how = [("mechanism", str(certificate["mechanism"]))] if "mechanism" in certificate else []
    limits = [("limit", each) for each in (*_LIMITS, *(certificate.get("notes") or ()))]
    sections = {
        "Data": data,
        "Price": price,
        "What it is worth": worth,
        "Certificate": [*proved, ("in words", text)],
        "Intended use and limits": [*(meant or [("purpose", "not said in the document it answers")]), *limits],
        "How it was made": [*how, *made],
    }
    return ModelCard(title, tuple(CardSection(name, tuple(lines)) for name, lines in sections.items()))


def _data(release: Release, asked: Mapping[str, Any]) -> list[Line]:
    told = release.certificate
    lines: list[Line] = []
    if asked.get("dataset"):
        lines.append(("data set", str(asked["dataset"])))
    if asked.get("featurizer"):
        lines.append(("read on people's machines", str(asked["featurizer"])[:_LONGEST]))
    if asked.get("where"):
        lines.append(("rows", f"where {str(asked['where'])[:_LONGEST]}"))
    inputs = asked.get("inputs") or release.extra.get("inputs") or ()
    lines += [("inputs", ", ".join(map(str, inputs)))] if inputs else []
    output = asked.get("output") or asked.get("label") or asked.get("outputs") or release.extra.get("output")
    lines += [("output", output if isinstance(output, str) else ", ".join(map(str, output)))] if output else []
    covered = release.extra.get("coverage", {})
    if covered.get("answered"):
        lines.append(("sites in it", ", ".join(covered["answered"])))
    lines += [(f"without {site}", str(why)) for site, why in covered.get("missing", {}).items()]
    contributors = "private" if told.contributors is None else figure(told.contributors)
    lines.append(("contributors", contributors))
    if told.bounds:
        lines.append(("bounds", "; ".join(f"{name} {_bound(bound)}" for name, bound in told.bounds.items())[:_LONGEST]))
    if told.simulated:
        lines.append(("simulated", "yes: the people were declared, so that nobody is protected by it"))
    return lines


def _bound(bound: Any) -> str:
    if isinstance(bound, Mapping) and "values" in bound:
        return f"one of {', '.join(map(str, bound['values']))}"
    if isinstance(bound, Mapping) and {"low", "high"} <= bound.keys():
        return f"{figure(bound['low'])} to {figure(bound['high'])}"
    if isinstance(bound, Sequence) and not isinstance(bound, str) and len(bound) == 2:
        return " to ".join(figure(each) if isinstance(each, (int, float)) else str(each) for each in bound)
    return str(bound)


def _worth(release: Release) -> list[Line]:
    found = release.quality
    if found is None:
        return [("quality", release.unchecked)]
    bar = found.interval
    lines = [
        ("verdict", "not compared with guessing" if found.verdict is None else str(found.verdict)),
        (
            found.metric,
            f"{figure(found.value, 4)} ({bar.level:.0%} interval {figure(bar.low, 4)} to {figure(bar.high, 4)})",
        ),
    ]
    lines += [] if found.guessing is None else [("guessing", figure(found.guessing, 4))]
    return [*lines, ("tested on", f"{figure(found.people)} {found.of}"), ("epsilon of the test", figure(found.epsilon))]


def _kind(asked: Mapping[str, Any], release: Release) -> str:
    model = asked.get("model") or asked.get("family") or asked.get("method")
    kind = str(asked.get("type") or release.form)
    short = isinstance(model, str) and len(model) < 60 and model.isascii()
    return f"{kind} ({model})" if short else kind


def _parameters(certificate: Certificate) -> Iterator[Line]:
    """Tell the plain numbers and words of how it was made."""
    for name, value in certificate.parameters.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            continue
        yield name.replace("_", " "), figure(value) if isinstance(value, (int, float)) else value[:_LONGEST]

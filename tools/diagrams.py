"""The diagrams of the documentation: what is described here as boxes and arrows, drawn into docs/pictures/.

python -m tools.diagrams
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
HEIGHT, LINE = 58, 15
PLAIN, OWNER, TRUSTED = "#f4f4f2", "#d9efe9", "#fbe6b8"


@dataclass(frozen=True, slots=True)
class Box:
    """A party or a step: where its upper left corner lies, its name, and what it does in a line or two."""

    x: int
    y: int
    name: str
    does: Sequence[str] = ()
    colour: str = PLAIN
    width: int = 172

    @property
    def height(self) -> int:
        return HEIGHT + LINE * (len(self.does) - 1)


@dataclass(frozen=True, slots=True)
class Diagram:
    """Boxes by name, arrows between them with what travels, and the whole in a sentence for who cannot see it."""

    says: str
    width: int
    height: int
    boxes: dict[str, Box]
    arrows: Sequence[tuple[str, str, str]]


WHOLE = Diagram(
    "People and institutions keep their data; a coordinator sends them questions and gets what the document says and "
    "they agreed to; an analyst gets an answer with an error bar and a certificate.",
    760,
    330,
    {
        "person": Box(20, 20, "People", ("own data, own limits,", "own ledger"), OWNER),
        "site": Box(20, 220, "Institutions (sites)", ("rows, a policy,", "a ledger, an audit log"), OWNER),
        "coordinator": Box(300, 120, "Coordinator", ("publishes tasks, adds", "up contributions")),
        "analyst": Box(570, 120, "Analyst", ("asks; sees the price", "before anybody pays")),
    },
    (
        ("coordinator", "person", "question"),
        ("person", "coordinator", "contribution"),
        ("coordinator", "site", "question"),
        ("site", "coordinator", "totals"),
        ("analyst", "coordinator", "document"),
        ("coordinator", "analyst", "release"),
    ),
)

_NOBODY = {
    "owner": Box(20, 30, "Person", ("adds noise at home",), OWNER),
    "server": Box(300, 30, "Coordinator", ("sees noise only",)),
    "answer": Box(570, 30, "Answer", ("error bar: widest",)),
}
_SERVER = {
    "owner": Box(20, 30, "Person", ("sends the value",), OWNER),
    "server": Box(300, 30, "Coordinator", ("adds noise, destroys",), TRUSTED),
    "answer": Box(570, 30, "Answer", ("error bar: narrow",)),
}
_SITE = {
    "owner": Box(20, 30, "Institution", ("has the rows, adds noise",), TRUSTED),
    "server": Box(300, 30, "Coordinator", ("adds totals up",)),
    "answer": Box(570, 30, "Answer", ("error bar: narrow",)),
}
_ARROWS = (("owner", "server", "contribution"), ("server", "answer", "release"))

DIAGRAMS = {
    "whole": WHOLE,
    "trust-none": Diagram(
        "Nobody is trusted: a person's machine adds noise before anything leaves.", 760, 120, _NOBODY, _ARROWS
    ),
    "trust-server": Diagram(
        "The coordinator is trusted to add noise once and to destroy what it was sent.", 760, 120, _SERVER, _ARROWS
    ),
    "trust-site": Diagram(
        "Each institution is trusted with its own rows and adds noise to its totals.", 760, 120, _SITE, _ARROWS
    ),
    "trust-split": Diagram(
        "One of two servers must keep its word: each hears one share, which alone is chance, and adds noise.",
        760,
        250,
        {
            "owner": Box(20, 90, "Person", ("splits the value in two",), OWNER),
            "leader": Box(300, 20, "Coordinator", ("adds shares and noise",)),
            "helper": Box(300, 165, "Helper", ("adds shares and noise",)),
            "answer": Box(570, 90, "Answer", ("error bar: narrow",)),
        },
        (
            ("owner", "leader", "share"),
            ("owner", "helper", "share"),
            ("leader", "answer", "sum"),
            ("helper", "answer", "sum"),
        ),
    ),
    "contribution": Diagram(
        "A contribution's life: seen, agreed to, price reserved, computed, charged and sent, in the answer, destroyed.",
        760,
        230,
        {
            "seen": Box(20, 20, "Seen", ("in plain words,", "with its price"), OWNER),
            "reserved": Box(294, 20, "Agreed", ("price reserved", "in your ledger"), OWNER),
            "computed": Box(568, 20, "Computed", ("once; the bytes are", "stored sealed"), OWNER),
            "sent": Box(568, 140, "Sent", ("charged before", "the first byte leaves"), OWNER),
            "done": Box(294, 140, "In the answer", ("your receipt", "is in its list")),
            "gone": Box(20, 140, "Destroyed", ("the contribution, not", "the charge or answer")),
        },
        (
            ("seen", "reserved", "yes"),
            ("reserved", "computed", ""),
            ("computed", "sent", ""),
            ("sent", "done", "phase closes"),
            ("done", "gone", ""),
        ),
    ),
}


def drawn(diagram: Diagram) -> str:
    """Return a diagram as SVG that stands alone."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {diagram.width} {diagram.height}" role="img" '
        f'font-family="sans-serif" font-size="13" fill="#1c2b2d"><title>{escape(diagram.says)}</title>'
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#0d5c63"/></marker></defs>'
        f'<rect width="{diagram.width}" height="{diagram.height}" rx="8" fill="#ffffff"/>'
    )
    both = {(one, other) for one, other, _ in diagram.arrows}
    lines = [head, *(_box(box) for box in diagram.boxes.values())]
    for one, other, label in diagram.arrows:
        shift = 9 if (other, one) in both else 0
        lines += _arrow(diagram.boxes[one], diagram.boxes[other], label, shift)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box(box: Box) -> str:
    middle = box.x + box.width / 2
    begin = f'<text x="{middle:g}" text-anchor="middle" font-size="12"'
    does = "".join(f'{begin} y="{box.y + 42 + LINE * n}">{escape(line)}</text>' for n, line in enumerate(box.does))
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6" fill="{box.colour}" '
        f'stroke="#0d5c63"/><text x="{middle:g}" y="{box.y + 22}" text-anchor="middle" font-weight="bold">'
        f"{escape(box.name)}</text>{does}"
    )


def _arrow(one: Box, other: Box, label: str, shift: int) -> Iterator[str]:
    """Draw from the nearer side of one to that of the other; of two that go both ways each keeps to its side."""
    if abs(one.x - other.x) >= one.width:
        right = one.x < other.x
        begin, end = (one.x + one.width + 3, other.x - 4) if right else (one.x - 3, other.x + other.width + 4)
        side = -shift if right else shift
        from_y, to_y = one.y + one.height / 2 + side, other.y + other.height / 2 + side
    else:
        begin = end = one.x + one.width // 2
        from_y, to_y = one.y + one.height + 3.0, other.y - 4.0
        side = 0
    way = f"M{begin:g} {from_y:g}L{end:g} {to_y:g}"
    yield f'<path d="{way}" stroke="#0d5c63" stroke-width="1.5" marker-end="url(#end)"/>'
    if label:
        above = 14 if side > 0 else -6
        x, y = (begin + end) / 2, (from_y + to_y) / 2 + above
        yield f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="11" stroke="#ffffff" stroke-width="4" '
        yield f'paint-order="stroke">{escape(label)}</text>'


def main() -> None:
    for name, diagram in DIAGRAMS.items():
        (PICTURES / f"{name}.svg").write_text(drawn(diagram), encoding="utf-8")


if __name__ == "__main__":
    main()

"""The parameters that a steward may give of a data set's made-up rows, with defaults that serve most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Literal, Self, get_args

from thebes.curator.cache.cuts import Cut, cuts_of
from thebes.curator.cache.synopsis_parameters import Bins, bins_of, names_of
from thebes.curator.cache.synthesis.base_histograms import SOURCES
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

Check = Literal["sparse", "threshold"]

MOST_PARTS, MOST_ROWS, MOST_EPOCHS = 64, 2**16, 1000


@dataclass(frozen=True, slots=True)
class SmartParameters:
    """`columns` and `bins` cut the domain (see `Cells`). `epsilon` and `delta` buy what rows are made of, once for each
    block: the counts of each column alone or (`source`) also of pairs of columns that make a tree. `parts` sets of
    `rows` made-up rows each are weighed apart from each other; `diversity` is how strongly their columns hang together
    by chance before anything is known.

    An answer is guessed only where the parts agree: their spread is at most `agreement` times what it may be off. By
    `check` the guess is compared with the rows: with a "sparse" vector, which is paid once for each time that it fails,
    or with a noisy "threshold", which is paid for every time out of `check_share` of the answer's epsilon. What a guess
    may be off is, for a question by epsilon, the width in which noise lies with probability `threshold`.

    `trust`: of the latest guesses that were compared with a released answer, this share must have been right before
    one is checked; without it, as large a share as makes up for what a sparse vector costs, and whatever is bought, all
    that is paid never exceeds what answers alone would have cost by more than the share `risk`.

    Learning: `epochs` gradient steps of length `rate` on the weights of a random `share` of the parts.
    """

    columns: tuple[str, ...] | None = None
    bins: Mapping[str, Bins] = field(default_factory=dict)
    source: str = "independent"
    epsilon: Decimal = Decimal("0.1")
    delta: Decimal = Decimal(0)
    parts: int = 8
    rows: int = 4096
    diversity: float = 0.7
    agreement: float = 0.35
    threshold: float = 0.99
    check: Check = "sparse"
    check_share: float = 0.25
    trust: float | None = None
    risk: float = 0.15
    epochs: int = 10
    rate: float = 0.5
    share: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact.epsilon(self.epsilon, "cache.epsilon"))
        object.__setattr__(self, "delta", exact.delta(self.delta))
        for name, least, most in (("parts", 2, MOST_PARTS), ("rows", 16, MOST_ROWS), ("epochs", 1, MOST_EPOCHS)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise Mistake(f"cache.{name}", f"must be a whole number from {least} to {most}")
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is None and name == "trust":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise Mistake(f"cache.{name}", f"must be a number from {figure(low)} to {figure(high)}")
        if self.source not in SOURCES:
            raise Mistake("cache.source", f"must be one of {', '.join(SOURCES)}")
        if self.check not in get_args(Check):
            raise Mistake("cache.check", f"must be one of {', '.join(get_args(Check))}")

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Read what a declaration says, without its `kind`."""
        known = {each.name for each in fields(cls)}
        if unknown := [name for name in declared if name not in known]:
            raise Mistake(
                f"cache.{unknown[0][:63]}", f"is not a parameter of smart, which has {', '.join(sorted(known))}"
            )
        read = dict(declared)
        if read.get("columns") is not None:
            read["columns"] = names_of(read["columns"], "columns")
        if "bins" in read:
            read["bins"] = bins_of(read["bins"])
        return cls(**read)

    def cuts(self, schema: Schema) -> tuple[Cut, ...]:
        """The cells of each column, one for missing values among them."""
        return cuts_of(schema, self.columns or None, self.bins, missing=True, within="cache.")


_RANGES = (
    ("diversity", 0.0, 10.0),
    ("agreement", 0.0, 1e6),
    ("threshold", 0.5, 0.999999),
    ("check_share", 0.01, 0.9),
    ("trust", 0.0, 1.0),
    ("risk", 0.0, 100.0),
    ("rate", 1e-6, 1.0),
    ("share", 1e-6, 1.0),
)

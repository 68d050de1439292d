"""Two data sets of a site as one for a question: their rows joined on whose they are, and both of their budgets."""

from __future__ import annotations

from dataclasses import dataclass, field

from thebes.data.join import join
from thebes.privacy.faults import Mistake
from thebes.site.dataset import Cache, DataSet

_NO_CACHE = Cache(kind="none")  #: what is released of one data set follows from its rows alone


@dataclass
class JoinedDataSets:
    """The joined data sets that were asked for, each kept until one of its two is declared anew."""

    _made: dict[tuple[str, str], DataSet] = field(default_factory=dict)

    def __call__(self, one: DataSet, other: DataSet) -> DataSet:
        known = self._made.get((one.name, other.name))
        if known is None or known.joined[0] is not one or known.joined[1] is not other:
            known = self._made[one.name, other.name] = joined(one, other)
        return known


def joined(one: DataSet, other: DataSet) -> DataSet:
    """Join two data sets, or refuse it in the words of a document's field."""
    for each in (one, other):
        if each.blocks is not None:
            raise Mistake("join", f"is of data sets that do not grow, and {each.name} does")
    if one.budget.filter != other.budget.filter:
        counted = " and ".join(f"{each.name} by {each.budget.filter}" for each in (one, other))
        raise Mistake(
            "join", f"is of data sets whose budgets are counted alike; these are counted otherwise: {counted}"
        )
    made = join((one.name, one.schema), (other.name, other.schema))
    name = f"{one.name} joined with {other.name}"
    return DataSet(name, made.schema, {"kind": "joined"}, one.budget, None, _NO_CACHE, (one, other))

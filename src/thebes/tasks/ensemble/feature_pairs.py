"""The choice of features that the "odds" method asks about together, where a document names no subsets: from public
things only.

Every feature is asked about in one joint, every peer about one joint. Nothing is measured for this choice, so it costs
nobody anything: a person sends one report with the whole of epsilon and pays epsilon, as if the joints were given.

Fewer joints have more peers each, but larger ones are noisier. A joint of D cells, heard from n / J peers in each of J
joints, tells the m * l cells of one of its features with l labels with the squared error
    (D v(D) + 1 - 1 / (m l)) J / n:
v(D) is what the mechanism leaves in a cell of one report; the rest is who happened to be asked, at even shares. The sum
over all features is compared; n and what the data are like play no part in which is least.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

SLACK = 1.1  #: a joint is only made where it brings the error within this factor of the least


def joints(
    sizes: Sequence[int], labels: int, noise: Callable[[int], float], *, most_cells: int
) -> tuple[tuple[int, ...], ...]:
    """The places of the features in each joint. `sizes` are the features' bins, `noise(cells)` is v of so many cells.

    The two joints with the fewest cells become one, again and again; of all these stages the one with the most
    joints is taken whose error is near the least.
    """

    def error(joint: tuple[int, ...], cells: int) -> float:
        return sum(cells * noise(cells) + 1 - 1 / (sizes[place] * labels) for place in joint)

    waiting: list[tuple[int, tuple[int, ...]]] = [(size * labels, (place,)) for place, size in enumerate(sizes)]
    heapq.heapify(waiting)
    each = {joint: error(joint, cells) for cells, joint in waiting}
    stages = [(len(each) * sum(each.values()), tuple(each))]
    while len(waiting) > 1:
        (few, first), (more, second) = heapq.heappop(waiting), heapq.heappop(waiting)
        cells, joint = few * more // labels, tuple(sorted(first + second))
        if cells > most_cells:
            break
        heapq.heappush(waiting, (cells, joint))
        del each[first], each[second]
        each[joint] = error(joint, cells)
        stages.append((len(each) * sum(each.values()), tuple(each)))
    least = min(total for total, _ in stages)
    return tuple(sorted(next(made for total, made in stages if total <= SLACK * least)))

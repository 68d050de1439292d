"""The shape of every kind of task: what its author writes, and what everybody else calls.

A requestor's question is a *document*: immutable JSON, known by its digest. Its `type` names its *kind* (`Kind`), which
reads, prices and explains it by pure functions. An *owner* has the rows: a person, or an institution (a *site*). The
owner's half (`Owner`; a site's is in `site_protocols`) makes of them a *contribution*, the only thing that ever leaves;
before it draws noise it consumes its *claim*, what the owner has set aside for this document. The *aggregator* runs at
the coordinator: it *asks* a *slot* (a pseudonym, or a site's name), hears contributions *part* by part, one *phase*
after another, and makes the *release*: the answer with its error bar and its *certificate*. Whoever runs it gives it a
*setting*. The two halves meet in `Contributions` alone: the same code runs for one person, a simulated million, and
over a network.

    document = registry.check(told)                        # or InvalidDocument, naming the field at fault
    price = registry.kind(document.type).price(document)   # the most that one owner pays, over all phases
    aggregator = registry.aggregator(document, setting)    # the coordinator's half
    ask = aggregator.ask("somebody")                       # what it wants from this slot now
    owner = registry.owner(document)                       # the owner's half; its rows and claim stay there
    given = owner.contribute(document, ask, rows, claim, randomness=randomness)
    aggregator.accept(given)                               # taken whole, or refused and nothing was heard
    aggregator.advance(now)                                # ends phases: the only place where time enters
    release = aggregator.release()                         # None until enough was heard

Every half is generic over the class of its documents: `KIND: Kind[MyDocument] = MyKind()` has mypy compare all of it.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Refusal
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness
from thebes.sharing.field import Bytes
from thebes.sharing.prio3 import Flags, PreparedShares
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import Document, DocumentType
from thebes.tasks.release import Release

if TYPE_CHECKING:
    from thebes.tasks.split_reports import ReceivedReports

#: the class of a kind's documents, for the halves that only read them
DocumentRead = TypeVar("DocumentRead", bound=Document, contravariant=True)


@dataclass(frozen=True, slots=True)
class Ask:
    """The request that an aggregator has for one slot now. `part` depends on public things only; `ask_id` names the
    ask.

    `partition` is the peer partition of the slot: everybody of one is asked the same. `task` is the id under which
    whoever answers has booked the task, never one that an answer to them names; nothing in a simulation.
    """

    ask_id: str
    part: str
    phase: int
    payload: Mapping[str, Any] = field(default_factory=dict)
    expires_at: datetime | None = None
    partition: int = 0
    task: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to ask now; come back after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing will be asked any more."""


class TaskClosed(Refusal):
    """The phase or the task this contribution was for has ended; nothing was taken."""


class StaleContribution(Refusal):
    """It answers what was asked too long ago; nothing was taken."""


class OutlyingContribution(Refusal):
    """It lies farther from everybody else's than honest ones do, but for a stated rate; nothing was taken."""


class State(StrEnum):
    """The stage at which an aggregator stands. OPEN -> DONE when the last phase closes; OPEN -> EXPIRED when time
    runs out first. One that is endless -> DONE or EXPIRED when it is closed, too."""

    OPEN = "open"
    DONE = "done"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Setting:
    """The facts that an aggregator is told by the role that runs it; everything else is in the document.

    `unit` is what admission proves. `group_size` is the published number of registered owners where there is
    a group. `simulated` marks declared people. `sites` are those that are asked, where institutions answer, each with
    the schema it declares. Without `proofs` a simulation with two servers adds up what people would have shared: the
    same sums and the same noise of both, in a hundredth of the time.
    """

    unit: Unit
    randomness: Randomness
    group_size: int | None = None
    simulated: bool = False
    proofs: bool = True
    sites: Mapping[str, Schema] = field(default_factory=dict)
    #: what sites said beforehand of answers that they have already, where the document says how exact it must be
    quotes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: what the helper of a task with two servers said so far: its key as contributors are shown it, the key by which
    #: both look at proofs (`verify_key`), and in the end its noised `sum`
    helper: Mapping[str, Any] = field(default_factory=dict)


class Claim(Protocol):
    """An owner's right to spend on one document. Consuming comes before noise; more than was reserved is refused."""

    def consume(self, *, epsilon: exact.Number, delta: exact.Number) -> object: ...


@runtime_checkable
class Leading(Protocol):
    """The aggregator of a task with two servers at the first of them, the leader: what it verifies with the helper."""

    def layout(self, part: str, partition: int = 0) -> Layout: ...

    def nonces(self, contributions: Contributions) -> list[bytes]:
        """Name the reports as both servers know them."""
        ...

    def verified(self, contributions: Contributions) -> tuple[ReceivedReports, PreparedShares]:
        """Verify the leader's shares as far as one server can."""
        ...

    def confirmed(self, prepared: PreparedShares, counted: Flags, seeds: Bytes) -> Flags:
        """Tell which of the reports that the helper counts this server counts, too."""
        ...

    def check_sum(self, total: Sequence[int]) -> None:
        """Refuse a sum of the helper's that has not the form of this task's."""
        ...


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a kind that pages use beside a document's own."""

    title: str  #: what comes out of it, in a few words: "One statistic"
    about: str  #: the same as a half sentence, where somebody chooses what to ask
    to_people: str = ""  #: what the people who are asked call it, where people are
    #: what leaves where it cannot be shown as values
    report: str = "What would leave is a report computed from your rows and then changed at random, as described above."
    example: str = ""  #: what an example of what would leave must say beside it


class Kind(Protocol[DocumentType]):
    """The public half of a kind: pure functions of the document."""

    #: the value of the document's `type`
    type: str
    #: the class of its checked documents
    document: builtins.type[DocumentType]
    words: Words

    def subject(self, document: Mapping[str, Any]) -> str:
        """Say in a few words what comes out of a checked document, as JSON: "Mean of age"."""
        ...

    def check(self, document: Mapping[str, Any]) -> DocumentType:
        """Return the document with aliases and defaults filled in, or `InvalidDocument` naming the field at fault."""
        ...

    def price(self, document: DocumentType, *, unit: Unit = Unit.DEVICE) -> Price:
        """The most one contributor can be charged for this document, over every part, round and repeat."""
        ...

    def explain(self, document: DocumentType) -> str:
        """The document in plain words for the person whose data it is about."""
        ...


class Dialect(Protocol):
    """Another way to write documents of kinds that there are."""

    #: the value of the document's `type`
    type: str
    #: the class of documents that are written so
    document: builtins.type[Document]

    def check(self, document: Mapping[str, Any]) -> Document:
        """Return the checked document of the kind that does the work, or `InvalidDocument` naming the field at fault as
        it is written here."""
        ...


class Aggregator(Protocol):
    """The half that hears contributions. Only `advance` is told the time; nothing else ends a phase."""

    state: State

    @property
    def part(self) -> str:
        """The name of the phase that is heard now."""
        ...

    @property
    def parts(self) -> tuple[str, ...]:
        """Its parts, one for each packet; of one packet, the phase itself."""
        ...

    @property
    def wanted(self) -> int:
        """So many contributions to every part end the phase before its time."""
        ...

    @property
    def least(self) -> int:
        """So many to every part are enough at the deadline."""
        ...

    @property
    def together(self) -> int | None:
        """The number of contributions that may answer one ask; None where everybody of a partition is asked the
        same."""
        ...

    @property
    def endless(self) -> bool:
        """Return whether its task has no end of its own: it is an `Endless` one, two asks of one slot may differ, and
        `close` ends it."""
        ...

    @property
    def partitions(self) -> int:
        """Into how many peer partitions slots fall now."""
        ...

    def partition(self, slot: str) -> int:
        """The peer partition of a slot; a public function of its name."""
        ...

    def quote(self, public_state: Mapping[str, Any] | None = None) -> Price: ...

    def ask(self, slot: str, packet: int = 0) -> Ask | Wait | Closed:
        """Return what is wanted from a slot (`packets.slot_of`) as its contributor's packet of that number. Where a
        phase takes several turns of one contributor, the packets of turn t follow those of turn t - 1."""
        ...

    def asked(self, ask_id: str, slot: str, packet: int = 0) -> bool:
        """Return whether this could have been asked of the slot; raise `StaleContribution` where that was too long
        ago."""
        ...

    def layout(self, part: str, partition: int = 0) -> Layout:
        """Return what a contribution of a partition to this part must look like."""
        ...

    def examine(self, contributions: Contributions) -> Contributions:
        """Refuse a batch that is out of domain, naming the field, without hearing it."""
        ...

    def accept(self, contributions: Contributions) -> None:
        """Hear a batch. Raises `TaskClosed` after the phase ended, `Mistake` out of domain; then nothing was heard."""
        ...

    def advance(self, now: datetime, absent: int = 0) -> None: ...

    def close(self) -> None:
        """End what is endless and keep the last release; `Mistake` for every other kind."""
        ...

    def expect(self, count: int) -> None:
        """In simulation only: close the phase at exactly `count` contributions."""
        ...

    def release(self) -> Release | None:
        """The answer so far; the same answer every time until more was heard."""
        ...

    def snapshot(self) -> bytes: ...

    def restore(self, snapshot: bytes) -> None: ...


class Endless(Aggregator, Protocol):
    """The additions of an aggregator whose task has no end (`tasks.aggregation.open_ended` has them all): a report is
    taken at once, and cannot be taken back; there is a release as soon as there is enough; somebody closes it.

    Its state is `facts`, as JSON, and `pieces`, numbered from 0, which reports replace one at a time and which are
    stored one by one. Without pieces, facts are stored together with every report, before it is acknowledged; beside
    pieces, with every batch or a moment later.
    """

    counts: list[int]

    @property
    def pieces(self) -> int: ...

    def facts(self) -> dict[str, Any]: ...

    def recall(self, facts: Mapping[str, Any]) -> None:
        """The inverse of `facts`."""
        ...

    def joined(self, theirs: Mapping[str, Any], before: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
        """`theirs` and everything that came to `mine` since it was `before`: what several processes know together."""
        ...

    def taken(self, facts: Mapping[str, Any]) -> int:
        """Return how many contributions facts tell of that no piece shows."""
        ...

    def take_over(self, facts: Mapping[str, Any], pieces: Sequence[bytes], times: Sequence[int]) -> None:
        """Stand where it was stored; each piece with how often it was replaced."""
        ...

    def saved(self, place: int) -> bytes: ...

    def load(self, place: int, saved: bytes) -> None:
        """The inverse of `saved`; counts nothing."""
        ...

    def replaced(self) -> Sequence[int]:
        """Return the places that were replaced since this was last asked, as often as they were."""
        ...

    def stands(self, times: Sequence[int]) -> None:
        """Count anew where each piece has been replaced so many times, by whichever process."""
        ...

    def copied(self) -> Endless:
        """The same as it stands now, for who computes while it goes on."""
        ...

    def progress(self, facts: Mapping[str, Any], pictured: Any = None) -> dict[str, Any]:
        """Return what a live view tells: public figures out of facts, with what `pictured` gave."""
        ...

    def pictured(self) -> Any:
        """Return what only the requestor and operators are shown beside: pieces may be single contributions."""
        ...


class Owner(Protocol[DocumentRead]):
    """The half that computes on rows: rows are a batch, a person is a batch of one."""

    def able(self, document: DocumentRead, rows: Rows) -> NDArray[np.bool_]:
        """Return who could answer at all. A person who could not is told so before accepting, and sends nothing."""
        ...

    def contribute(
        self, document: DocumentRead, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
    ) -> Contributions: ...

    def layout(self, document: DocumentRead, ask: Ask) -> Layout:
        """Return what a contribution to this ask must look like: the same as the aggregator's, known without it."""
        ...


@runtime_checkable
class Legible(Protocol[DocumentRead]):
    """An optional addition to an owner's half: its owner can be shown an example of what would leave. It is left out
    where a contribution cannot be computed without the server, or says nothing to the eye (a network's gradient)."""

    def legible(self, document: DocumentRead, contributions: Contributions) -> dict[str, list[Any]]:
        """Contributions as whoever receives them reads them: one list of values for each column."""
        ...


@runtime_checkable
class Foreseeing(Protocol[DocumentRead]):
    """The addition of an owner's half to `Legible` where only the server's ask says what a contribution is about."""

    def foreseen(self, document: DocumentRead, randomness: Randomness) -> list[Ask]:
        """Asks that a server could make which keeps to the document, one for each packet. `legible` reads the answers
        to these."""
        ...

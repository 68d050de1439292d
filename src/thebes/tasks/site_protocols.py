"""The shape of a kind that institutions answer: what stands beside `protocols` where a *site* is asked.

A site is known by its name: a slot is a site, and a peer partition of its own. Its kind (`SiteKind`) also says which
*schema*, columns with their bounds, a document fits, and which *event* happens to one unit: the site's ledger prices it
and sets that aside before a row is read. The site's half (`SiteOwner`) computes on its *table*. The aggregator
(`Convened`) hears one contribution of each site, and goes on without those that are *missing*. Where a site may answer
from what it released before, its half is `Planned`: then it says what an answer *costs* and where it comes from. A
growing data set is worked on in *attempts* (`StreamOwner`), each allowed and paid by itself.

    registry.site_kind(document).fits(document, schema)    # or it names the document's field, and the column
    aggregator = registry.aggregator(document, setting)    # `setting.sites`: who is asked, each with its schema
    ask = aggregator.ask("aachen")                         # what it wants from this site now
    half = registry.site_owner(document)                   # its table and claim stay there
    given = half.contribute(document, ask, table, claim, randomness=randomness)
    aggregator.accept(given)
    aggregator.paid("aachen", 0.5, "mechanism")            # what one unit paid, and where the answer came from
    aggregator.excuse("bonn", "it refused")                # goes on without it, and the certificate names it
    half = registry.stream_owner(document)                 # of a document that says `in_attempts`
    given = half.attempt(document, ask, attempting)        # stands for table and claim
    release = aggregator.release()                         # None until enough sites answered
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.privacy.events import Event
from thebes.privacy.guarantees import Price
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import DocumentType
from thebes.tasks.protocols import Aggregator, Ask, Claim, DocumentRead, Kind

if TYPE_CHECKING:
    from thebes.curator.cache.answer import Answered
    from thebes.curator.cache.requirement import Wanted
    from thebes.curator.pipelines.outcome import RunOutcome
    from thebes.curator.pipelines.pipeline import Pipeline
    from thebes.curator.questions.plans import QuestionPlan
    from thebes.tasks.aggregation.site_shares import HelperSum, SealedShare


class SiteKind(Kind[DocumentType], Protocol[DocumentType]):
    """The additions of a kind where sites answer."""

    def fits(self, document: DocumentType, schema: Schema) -> None:
        """Refuse a schema that cannot answer, naming the document's field and the column."""
        ...

    def event(self, document: DocumentType, schema: Schema) -> Event:
        """Return what happens to one unit at a site in one phase, under add-remove-one: the ledger there prices it. All
        phases together cost no more than the document's (epsilon, delta)."""
        ...


class Convened(Aggregator, Protocol):
    """The additions of an aggregator where institutions answer, each known by its name: a slot is a site, and a peer
    partition of its own."""

    @property
    def missing(self) -> Mapping[str, str]:
        """The sites that will not answer this phase, each with the reason."""
        ...

    @property
    def awaited(self) -> tuple[str, ...]:
        """The sites that have neither answered this phase nor been excused."""
        ...

    def excuse(self, site: str, why: str) -> None:
        """Go on without a site in this phase: it refused, failed, or took too long."""
        ...

    def covers(self, site: str, told: object) -> None:
        """Take what a site says its answer is about, where its data set grows; whatever is no such thing is not
        taken."""
        ...

    def paid(self, site: str, cost: object, source: object) -> None:
        """Take what a site says its answer cost one unit there, and where it came from: rows (`mechanism`), an
        earlier answer (`cache`), or what earlier answers say (`synopsis`); whatever cannot be is not taken."""
        ...

    def progress(self) -> dict[str, Any]:
        """Return how far it is, in public figures, for a live view."""
        ...


@runtime_checkable
class HelpedSites(Protocol):
    """The addition to an aggregator of sites that split their totals between this server and a helper."""

    @property
    def least(self) -> int: ...

    def snapshot(self) -> bytes: ...

    def to_helper(self) -> list[SealedShare]:
        """Return what the helper is to add up."""
        ...

    def from_helper(self, said: HelperSum) -> None:
        """Take its noised sum; whose share it could not open has not answered."""
        ...

    def without_helper(self, why: str) -> None:
        """End the phase as if nobody had answered it: the helper will not add up."""
        ...


class SiteOwner(Protocol[DocumentRead]):
    """The half that computes on an institution's rows: its table is read-only and clips by itself."""

    def contribute(
        self, document: DocumentRead, ask: Ask, table: Table, claim: Claim, *, randomness: Randomness
    ) -> Contributions: ...

    def layout(self, document: DocumentRead, ask: Ask, schema: Schema) -> Layout:
        """Return what a contribution to this ask must look like: the same as the aggregator's, known without it."""
        ...


@runtime_checkable
class Planned(SiteOwner[DocumentRead], Protocol[DocumentRead]):
    """The addition to a site owner's half where an answer may come from what its site released before."""

    def planned(
        self, document: DocumentRead, ask: Ask | None, schema: Schema
    ) -> tuple[QuestionPlan, Wanted | None, str | None] | None:
        """Return what is asked of the rows, what is wanted of every total (None without an ask), and how it can be
        asked again (None of several statistics); None where exact totals leave the site."""
        ...

    def told(self, document: DocumentRead, ask: Ask, answered: Answered) -> Contributions:
        """The contribution that says it."""
        ...


class Attempting(Protocol):
    """The right to work on a growing data set in attempts, as a site gives it for one task: every attempt is allowed by
    its policy, charged to all of its blocks or to none before a row is read, and written down. Where an owner of fixed
    rows has a claim and a table, this stands for both."""

    @property
    def name(self) -> str:
        """Under which the attempts are kept."""
        ...

    def run(self, pipeline: Pipeline) -> RunOutcome:
        """As many attempts as can be paid; again gives the same outcome."""
        ...


class StreamOwner(Protocol[DocumentRead]):
    """The half of a document that is worked on `in_attempts`."""

    def attempt(self, document: DocumentRead, ask: Ask, attempting: Attempting) -> Contributions: ...

    def paid(self, contributions: Contributions) -> Price:
        """Return what one unit in the block that paid most paid for it, as the answer says."""
        ...

    def layout(self, document: DocumentRead, ask: Ask, schema: Schema) -> Layout: ...

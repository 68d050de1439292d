"""The bodies of the coordinator's interface: what is read is read strictly, what is written is documented."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from thebes.coordinator.api.quote_bodies import Price
from thebes.coordinator.auth.lasting_sessions import SessionFacts
from thebes.tasks.document import GROUP_NAME
from thebes.wire.request_body import RequestBody

#: names that travel in addresses and stand in the database
Token = Annotated[str, Field(pattern=r"^[!-~]{1,200}$", description="1 to 200 printable ASCII characters")]
#: what a scheme of tokens wrote
Shown = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,2000}$", description="base64url without padding")]
GroupName = Annotated[str, Field(pattern=GROUP_NAME)]
#: said of an object whose names follow a pattern: no others are taken
_NAMED_SO: dict[str, Any] = {"additionalProperties": False}


class Submitted(RequestBody):
    """The contribution that an owner sends. `contributor` is a pseudonym made for this task only; the same again is the
    same submission. A task of a group takes a `token` instead, and the pseudonym is what the token proves."""

    ask_id: Token
    part: Token
    payload: dict[str, Any]
    contributor: Token | None = None
    token: Shown | None = None


class Enrolling(RequestBody):
    """A one-time code, and the request that a member's machine made. The same again has the same answer."""

    code: Token
    request: Shown
    epoch: GroupName | None = None


class Column(RequestBody):
    type: Literal["float", "integer", "string", "boolean", "timestamp"]
    description: str = Field(default="", max_length=2000)


class Table(RequestBody):
    description: str = Field(default="", max_length=2000)
    columns: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")], Column] = Field(
        max_length=500, json_schema_extra=_NAMED_SO
    )


class Published(RequestBody):
    """The tables that a collector fills. Never a count of anything."""

    app: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")
    tables: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")], Table] = Field(
        max_length=200, json_schema_extra=_NAMED_SO
    )


# --- answers --------------------------------------------------------------------------------------------


class DocumentFault(BaseModel):
    """One thing that is wrong with a document."""

    field: str
    message: str


class ProblemBudget(BaseModel):
    """An epsilon and a delta as text: exact, where a float is not."""

    epsilon: str
    delta: str


class Problem(BaseModel, extra="allow"):
    """Problem details, RFC 9457. `field` names what was wrong; no value is ever repeated."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    error: str | None = None
    problems: list[DocumentFault] | None = None  #: of a document, everything that is wrong with it
    seconds: float | None = None  #: after which to come back
    block: str | None = None  #: that has too little left
    requested: ProblemBudget | None = None
    remaining: ProblemBudget | None = None
    spender: str | None = None


class Summary(BaseModel):
    """`contributions` counts what the current phase has, `min_count` is what it needs; of a task that institutions
    answer, both count `sites`, those that are asked. `price` is null where it is unknown: nothing here can read the
    document any more."""

    task_id: str
    type: str
    status: Literal["open", "running", "done", "failed", "cancelled", "expired"]
    digest: str
    requestor: str
    document: dict[str, Any]
    explanation: str
    price: Price | None
    contributions: int
    min_count: int
    phase: int
    phases: int
    created: str
    sites: list[str] | None = None


class SiteRefusal(BaseModel):
    """The reason why a site is not in an answer. `reason` is its code (policy, budget, dataset, schema, document, busy,
    down, failed), or gone (its link was away) or late (it took too long). `charged` says whether the site was charged
    anything for the task: by its own word when it heard that the task is over, because only then is it final, or not,
    where it was never asked. It is left out where that is not known: the site has not heard it yet, had not heard of
    the task, or came back from a copy once, or the task is a pipeline."""

    reason: str
    message: str
    charged: bool | None = None


class ReleasedInterval(BaseModel):
    """An error bar: the exact answer lies in it as often as `level` says. Of several answers each end is one for each
    of them."""

    level: float
    low: float | list[float] | dict[str, float]
    high: float | list[float] | dict[str, float]


class ReleasedCertificate(BaseModel, extra="allow"):
    """The promise that a release keeps; `text` says it in a paragraph. `contributors` is null where their number is
    private."""

    unit: str
    adjacency: str
    epsilon: float
    delta: float
    guarantee: Literal["pure", "approximate", "zcdp", "renyi", "none"]
    mechanism: str
    parameters: dict[str, Any]
    bounds: dict[str, Any] | None
    contributors: int | None
    trust: Literal["none", "server", "split", "site"]
    estimated: list[str]
    simulated: bool
    notes: list[str]
    text: str


class PublishedRelease(BaseModel, extra="allow"):
    """An answer. `value` is a number, numbers by name, a model, or rows, as its kind says; null where there is none,
    and `explanation` says why. `interval` is null where no error bar is known, and `interval_note` says why."""

    value: Any
    interval: ReleasedInterval | None
    certificate: ReleasedCertificate
    form: str
    intervals: list[ReleasedInterval] | None = None
    interval_note: str | None = None
    explanation: str | None = None


class Detail(Summary):
    """A task with its latest release. Of one that institutions answer `refusals` says of each that is not in the answer
    why."""

    refusals: dict[str, SiteRefusal] | None = None
    result: PublishedRelease | None


class Lane(BaseModel):
    """Models that are trained side by side at one rate. `history` holds [updates, spread]; `norms` the length of each
    model, `distances` how far it is from their average, `models` its weights where they are few; all three are empty
    once the task is over, and for everybody but its requestor and operators."""

    updates: int
    refused: int
    quarantined: int
    stale: int
    history: list[list[float]]
    norms: list[float] = []
    distances: list[float] = []
    models: list[list[float]] = []


class Progress(BaseModel, extra="allow"):
    """The progress of a task without end, with what its kind tells beside: `lanes`, where models are trained. Of a task
    that institutions answer `sites` says it: who was `asked`, has `answered`, or is `missing` and why, what each answer
    cost, the `seconds` that went where, and what the kind tells of itself."""

    contributions: int
    lanes: list[Lane] = []
    sites: dict[str, Any] | None = None


class DataSet(BaseModel):
    """Its schema without whose each row is; `public`: it may be asked about without noise. Never a count of rows."""

    schema_: dict[str, Any] = Field(alias="schema")
    public: bool


class Site(BaseModel):
    """An institution that may take part, or once did."""

    name: str
    state: Literal["connected", "away", "revoked", "never"]
    last_seen: str | None
    certificate_ends: str | None  #: none of the coordinator's own site, and where all were revoked
    datasets: dict[str, DataSet]


class Posted(BaseModel):
    task_id: str
    digest: str


class Asked(BaseModel):
    ask_id: str
    part: str
    phase: int
    expires_at: str | None
    payload: dict[str, Any]


class Later(BaseModel):
    """Nothing now; come back after so many seconds."""

    wait: float


class Receipt(BaseModel):
    receipt: str


class About(BaseModel):
    """The operator of a coordinator, and what it holds requestors to. What its operator did not say is null."""

    operator: str | None
    contact: str | None
    require_purpose: bool  #: what people are asked must say what for, whom to ask and until when
    min_count_floor: int  #: no task for people may ask fewer


class ListedSession(BaseModel):
    """A session that goes on. `client` is what its program calls itself, or by which way somebody signed in."""

    id: str
    user: str
    client: str
    began: str
    until: str

    @classmethod
    def of(cls, each: SessionFacts) -> Self:
        began, until = (moment.isoformat(timespec="seconds") for moment in (each.began, each.until))
        return cls(id=each.id, user=each.user, client=each.client, began=began, until=until)


class Examined(BaseModel):
    """`problems` is empty where the document can be put up; only then is there anything else."""

    problems: list[DocumentFault]
    digest: str | None = None
    document: dict[str, Any] | None = None
    explanation: str | None = None
    price: Price | None = None


class ListEntry(BaseModel):
    index: int
    task_id: str
    digest: str
    previous: str
    hash: str


class Enrolled(BaseModel):
    """The response that the member's machine verifies and finishes its credential with."""

    epoch: str
    response: str


class Group(BaseModel):
    """An epoch of a group. `digest` is what members pin and compare; `record` is there once nobody enrols any more."""

    name: str
    epoch: str
    frozen: bool
    minimum: int
    size: int
    digest: str
    parameters: dict[str, Any]
    members: list[str]
    names: list[str] | None
    record: str | None
    epochs: list[str]


class ListSuccession(BaseModel):
    key: str
    next: str
    length: int
    head: str
    signature: str


class TaskList(BaseModel):
    """The signed, append-only list of tasks and groups, without the first `after` entries; and which key that signed
    it before gave way to which."""

    key: str
    entries: list[ListEntry]
    head: str
    signature: str
    successions: list[ListSuccession]


class PublishedRecord(BaseModel):
    """A release as it was published, to be kept. `document`, `certificate` and `answer` are the JSON texts that were
    hashed for the signed list; where the certificate alone was asked for, `answer_digest` stands for the answer. `list`
    is the signed list from the task's own entry on."""

    format: Literal["thebes release 1", "thebes certificate 1"]
    task_id: str
    phase: int
    document: str
    certificate: str
    answer: str | None = None
    answer_digest: str | None = None
    list: TaskList


class Collector(BaseModel):
    version: int
    tables: dict[str, Any]


class Health(BaseModel):
    status: Literal["ok"]

"""The tables of a coordinator, the same in SQLite and PostgreSQL.

What must stay true: `migrations/` builds exactly these tables; no table orders contributions by their arrival.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from thebes.database.versions import NAMES, Versions

METADATA = MetaData(naming_convention=NAMES)
VERSIONS = Versions(
    metadata=METADATA,
    table="coordinator_version",
    newest="0012",  # the last file in migrations/versions
    oldest="0009",  # the first one: what came before was never released
    migrations=Path(__file__).parent / "migrations",
    lock=0x7468656265730002,
)

TASK = Table(
    "coordinator_task",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("requestor", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created", Float(53), nullable=False),  # seconds since 1970
    Column("expires", Float(53)),
    Column("trusted", Integer, nullable=False),  # contributions are sealed under the task's key
    Column("status", Text, nullable=False),
    Column("phase", Integer, nullable=False),
    Column("part", Text, nullable=False),  # what contributions to this phase are called
    Column("least", Integer, nullable=False),  # so many are enough at the deadline
    Column("wanted", Integer, nullable=False),  # so many close the phase
    Column("accepted", Integer, nullable=False),  # so many has the part that has the fewest
    Column("snapshot", LargeBinary),  # the aggregator as it was when this phase began
    Column("following", Text),  # the status that a concluded task shows once its key is gone and sites know
    Column("leftovers", Integer, nullable=False),  # contributions of closed phases are still to be removed
    Column("holder", Text),  # the worker that computes
    Column("held_until", Float(53)),
    Column("counts", Text),  # JSON list: how many each part of this phase has, one for each packet of each turn
    Column("sites", Text),  # JSON: which institutions are asked and by which schemas, where they answer and not people
    CheckConstraint("accepted >= 0 AND accepted <= wanted", name="accepted"),
    Index("ix_coordinator_task_status", "status"),
    Index("ix_coordinator_task_leftovers", "leftovers"),
)

CONTRIBUTION = Table(
    "coordinator_contribution",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("part", Text, primary_key=True),
    Column("contributor", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),  # tells the same body from another one
    Column("receipt", Text, nullable=False),
    Column("record", LargeBinary),  # gone once it was used or taken back
    Column("withdrawn", Integer, nullable=False),
    # By pseudonym, so that the table does not remember who came when.
    sqlite_with_rowid=False,
)

#: Of a task that is trained without end: its models, and what else its aggregator remembers.
INSTANCE = Table(
    "coordinator_instance",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("updates", BigInteger, nullable=False),  # how often it was replaced
    Column("model", LargeBinary, nullable=False),
)

TRAINING = Table(
    "coordinator_training",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("facts", Text, nullable=False),  # JSON
)

RELEASE = Table(
    "coordinator_release",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("phase", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

ENTRY = Table(
    "coordinator_entry",
    METADATA,
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("task_id", Text, nullable=False),  # or a group's name in the list
    Column("digest", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

GROUP = Table(
    "coordinator_group",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("parameters", Text, nullable=False),  # JSON, as they were made: their size is 0
    Column("created", Float(53), nullable=False),  # seconds since 1970
    Column("size", Integer),  # from the moment it was published
)

MEMBER = Table(
    "coordinator_member",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("identity", Text, primary_key=True),
    Column("code", Text, nullable=False),  # SHA-256 of the one that was given out
    Column("request", Text),  # the one that was signed; nobody can tell from it which tokens follow
    ForeignKeyConstraint(["name", "epoch"], ["coordinator_group.name", "coordinator_group.epoch"]),
    UniqueConstraint("code"),
    UniqueConstraint("name", "epoch", "request"),
    # By name, so that the table does not remember who came when.
    sqlite_with_rowid=False,
)

USER = Table(
    "coordinator_user",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("password", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("disabled", Integer, nullable=False),
)

#: Who users are at an identity provider; `lost`: none of their groups has a role any more.
FEDERATED_USER = Table(
    "coordinator_federated_user",
    METADATA,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("name", Text, ForeignKey("coordinator_user.name"), nullable=False, unique=True),
    Column("lost", Integer, nullable=False),
)

#: Which sites a user may ask for which kinds; somebody without any may ask all.
CAPABILITY = Table(
    "coordinator_capability",
    METADATA,
    Column("user", Text, ForeignKey("coordinator_user.name"), primary_key=True),
    Column("site", Text, primary_key=True),  # or *
    Column("kind", Text, primary_key=True),  # or *
)

#: Institutions as they last described themselves.
SITE = Table(
    "coordinator_site",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("linked", Integer, nullable=False),  # to the process that has the seat, while that lives
    Column("seen", Float(53), nullable=False),  # seconds since 1970
    Column("datasets", Text, nullable=False),  # JSON: schemas by name, never a count of anything
)

#: How a task goes that sites answer, as everybody may see it.
RUN = Table(
    "coordinator_run",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("progress", Text, nullable=False),  # JSON
)

#: Sites that are still to be told that a task is over, so that they give back what is left of its claim.
FAREWELL = Table(
    "coordinator_farewell",
    METADATA,
    Column("site", Text, primary_key=True),
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
)

#: Tasks of people that have a helper, and what it said so far.
HELPED = Table(
    "coordinator_helped",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("helper", Text, nullable=False),  # the site
    Column("opened", LargeBinary),  # JSON, sealed under the task's key: the helper's keys for it
    Column("sum", Text),  # JSON: its share of the sum, with its noise
    Column("told", Integer, nullable=False),  # that the task is over: a farewell is written down
)

#: Reports of such tasks that are verified together, as they were put together before the helper heard of them.
HELPED_JOB = Table(
    "coordinator_helped_job",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("reports", Text, nullable=False),  # JSON: [contributor, nonce] in order
    Column("counted", Text),  # a 1 for each that the helper counts
)

#: Which of several processes speaks with the sites.
SEAT = Table(
    "coordinator_seat",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("open", Integer, nullable=False),  # it has a port for sites
    Column("until", Float(53), nullable=False),  # seconds since 1970, by the database's own clock
)

#: What sites are to say of costs, put by a process that does not speak with them until the one that does has answered.
QUESTION = Table(
    "coordinator_question",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("asked", Float(53), nullable=False),  # seconds since 1970
    Column("sites", Text, nullable=False),  # JSON: their names
    Column("body", Text, nullable=False),  # JSON: what each is asked
    Column("answer", Text),  # JSON: what each said
)

#: Sessions that somebody ended before they would have ended by themselves.
ENDED = Table(
    "coordinator_ended_session",
    METADATA,
    Column("id", Text, primary_key=True),  # the `jti` of its token
    Column("until", Float(53), nullable=False),  # seconds since 1970; after it the token counts no more anyway
)

#: Codes by which a program asks for somebody's sign-in, until that somebody has decided.
DEVICE_CODE = Table(
    "coordinator_device_code",
    METADATA,
    Column("device", Text, primary_key=True),  # SHA-256 of what the program proves itself by
    Column("code", Text, nullable=False),  # what somebody types on the page
    Column("client", Text, nullable=False),  # what the program calls itself
    Column("address", Text, nullable=False),  # where it asked from
    Column("until", Float(53), nullable=False),  # seconds since 1970
    Column("user", Text, ForeignKey("coordinator_user.name")),  # who let it in
    Column("refused", Integer, nullable=False),
    UniqueConstraint("code"),
)

#: How many codes that were none somebody typed, until these are forgotten.
WRONG_CODE = Table(
    "coordinator_wrong_code",
    METADATA,
    Column("user", Text, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("until", Float(53), nullable=False),  # seconds since 1970
)

#: Sessions of programs, which are renewed by a token that counts once.
LASTING_SESSION = Table(
    "coordinator_lasting_session",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("user", Text, ForeignKey("coordinator_user.name"), nullable=False),
    Column("client", Text, nullable=False),
    Column("token", Text, nullable=False),  # a keyed hash of the one that counts
    Column("began", Float(53), nullable=False),  # seconds since 1970
    Column("until", Float(53), nullable=False),
)

#: What this database is called; a home elsewhere knows it by that.
CALLED = Table(
    "coordinator_called",
    METADATA,
    Column("place", Text, primary_key=True),
    Column("name", Text, nullable=False),
)

COLLECTOR = Table(
    "coordinator_collector",
    METADATA,
    Column("app", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("tables", Text, nullable=False),
)

"""Invariants that must hold of every world, whatever befell it: I1 to I7 of the house, proved from its databases alone.

What must stay true: nothing here asks a running program; each rule is tested with databases that break it. A rule says
no more than databases can show: of I5 that only documents were stored, of I6 that a certificate is the one that the
same document gets in one process.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from evidence.chaos.alike import differences
from evidence.chaos.reading import Books, Cabinet, Diary, Registry, Row, Sent, rows
from thebes.ledger import Ledger, NoKeeper
from thebes.ledger.refusals import Tampered
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.losses import Approximate, Concentrated, Loss, Pure, concentrated_to_approximate
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import slot_of
from thebes.wire.task_log import START, hash_of

CERTIFICATE = (
    "unit", "adjacency", "epsilon", "delta", "guarantee", "mechanism", "parameters", "bounds", "contributors", "trust",
    "estimated", "simulated", "text",
)  # fmt: skip
_FINAL = ("done", "expired", "failed", "cancelled")
_SLACK = 1e-9  #: by which amounts differ that were told as floats
_MOST_PACKETS = 32


@dataclass(frozen=True)
class Broken:
    """One thing that should not be: against which invariant, where, and what."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.what}"


class World:
    """The homes of one deployment. `witnessed` are releases that somebody was served, by task; `store` is where the
    coordinator keeps what it knows, if not in its home; `helper` is the home of a second server."""

    def __init__(
        self,
        coordinator: Path,
        people: Sequence[Path] = (),
        sites: Sequence[Path] = (),
        witnessed: Mapping[str, Row] | None = None,
        store: str | None = None,
        helper: Path | None = None,
    ) -> None:
        self.helper = helper
        self.registry = Registry(coordinator, store)
        self.diaries = [Diary(home) for home in people]
        self.cabinets = [Cabinet(home) for home in sites]
        self.witnessed = dict(witnessed or {})

    def of(self, task: str, contributor: str) -> tuple[Diary, list[Sent]] | None:
        """Find whose pseudonym that is in a task, and what that person sent there."""
        for diary in self.diaries:
            mine = [sent for sent in diary.sent if sent.task == task]
            if any(contributor in _slots(sent.slot) for sent in mine) or contributor in diary.pseudonyms(task):
                return diary, mine
        return None

    def epsilon(self, task: str) -> Decimal:
        """Return what the document of a task says that it may cost."""
        return Decimal(str(self.registry.tasks[task]["document"]["epsilon"]))


def broken(world: World) -> list[Broken]:
    """Everything that breaks an invariant; nothing where all hold."""
    found: list[Broken] = []
    for look in (consented, covered, one_epsilon, certified, only_documents, same_code, nothing_lost):
        found += look(world)
    return found


# --- I1 -------------------------------------------------------------------------------------------------


def consented(world: World) -> Iterator[Broken]:
    """Whatever a coordinator has of somebody, they agreed to send and paid for."""
    for row in world.registry.contributions:
        task, part = row["task"], row["part"]
        whose = world.of(task, row["contributor"])
        if whose is None:
            yield Broken("I1", "coordinator", f"a contribution to {task} that nobody of this world sent")
            continue
        diary, mine = whose
        sent = [each for each in mine if each.part == part]
        if not any(each.left for each in sent):
            yield Broken("I1", diary.name, f"{part} of {task} arrived and was never sent")
        for each in sent:
            if not each.consent or each.accepted_at is None:
                yield Broken("I1", diary.name, f"{part} of {task} left without consent")
            if part not in diary.books.parts.get(each.key, {}):
                yield Broken("I1", diary.name, f"{part} of {task} left without a charge")
    for cabinet in world.cabinets:
        allowed = {facts["task"] for event, facts in cabinet.audited if event == "allowed"}
        for answer in cabinet.answers:
            if answer["task"] not in allowed or answer["task"] not in cabinet.requests:
                yield Broken("I1", cabinet.name, f"{answer['task']} was answered and no rule allowed it")
    for task, sites in world.registry.answered.items():
        for cabinet in world.cabinets:
            if cabinet.name in sites and task not in {answer["task"] for answer in cabinet.answers}:
                yield Broken("I1", cabinet.name, f"an answer to {task} was counted that it never gave")


# --- I2 -------------------------------------------------------------------------------------------------


def covered(world: World) -> Iterator[Broken]:
    """Ledgers are whole, within their limits, and have charged at least what left."""
    for name, books in [*((d.name, d.books) for d in world.diaries), *((c.name, c.books) for c in world.cabinets)]:
        yield from _whole(name, books)
    for diary in world.diaries:
        for sent in diary.sent:
            charged = diary.books.parts.get(sent.key, {}).get(sent.part)
            if sent.receipt is not None and charged is None:
                yield Broken("I2", diary.name, f"{sent.part} of {sent.task} has a receipt and was not charged")
            elif charged is not None and _epsilon(charged, sent.delta) < float(sent.epsilon) * (1 - _SLACK):
                yield Broken("I2", diary.name, f"{sent.part} of {sent.task} was charged less than it cost")
    for cabinet in world.cabinets:
        for answer in cabinet.answers:
            if cabinet.requests.get(answer["task"], {}).get("kind") == "pipeline":
                if float(cabinet.books.attempted(answer["task"])) < answer["epsilon"] * (1 - _SLACK):
                    yield Broken("I2", cabinet.name, f"{answer['task']} was charged less than it cost")
                continue
            paid = cabinet.books.parts.get(f"task {answer['task']}", {})
            # A cache names what was bought for a part behind the part.
            if answer["epsilon"] > 0 and not any(part.split(" ")[0] == answer["part"] for part in paid):
                yield Broken("I2", cabinet.name, f"{answer['part']} of {answer['task']} was answered and not charged")


def _whole(where: str, books: Books) -> Iterator[Broken]:
    try:
        with Ledger(f"sqlite:///{books.path}", create=False, keeper=NoKeeper()) as ledger:
            ledger.verify()
    except Tampered as tampered:
        yield Broken("I2", where, f"the ledger and its journal differ: {tampered}")
    except ThebesError as error:
        yield Broken("I2", where, f"the ledger cannot be read: {error}")
    for block in books.overdrawn:
        yield Broken("I2", where, f"the block {block!r} is overdrawn")


# --- I3 -------------------------------------------------------------------------------------------------


def one_epsilon(world: World) -> Iterator[Broken]:
    """Nobody is charged more for a document than it says, over all parts, rounds and repeats."""
    for diary in world.diaries:
        totals: defaultdict[str, Decimal] = defaultdict(Decimal)
        for key, parts in diary.books.parts.items():
            if key.startswith("task "):
                totals[key.split()[1]] += sum(_paid(loss) for loss in parts.values())
        for task, (_, document) in diary.documents.items():
            if totals[task] > Decimal(str(document["epsilon"])):
                yield Broken("I3", diary.name, f"{task} cost {totals[task]}, its document says {document['epsilon']}")
    for cabinet in world.cabinets:
        for task, request in cabinet.requests.items():
            document, parts = request["document"], cabinet.books.parts.get(f"task {task}", {})
            told = _together(list(parts.values()), Decimal(str(document.get("delta") or 0)))
            told = max(told or 0.0, float(cabinet.books.attempted(task)))
            if told > document["epsilon"] * (1 + 1e-6):
                yield Broken("I3", cabinet.name, f"{task} cost {told:.6g}, its document says {document['epsilon']}")


# --- I4 -------------------------------------------------------------------------------------------------


def certified(world: World) -> Iterator[Broken]:
    """Every release has its certificate, which says no less than was charged and no other number of contributors."""
    parts = Counter((row["task"], row["part"]) for row in world.registry.contributions)
    for (task, phase), release in world.registry.releases.items():
        told = release.get("certificate")
        if not isinstance(told, Mapping) or any(key not in told for key in CERTIFICATE):
            yield Broken("I4", "coordinator", f"a release of {task} without a whole certificate")
            continue
        if told["guarantee"] == "none" or told["simulated"]:
            yield Broken("I4", "coordinator", f"a release of {task} that promises nothing")
        if float(told["epsilon"]) > float(world.epsilon(task)) * (1 + _SLACK):
            yield Broken("I4", "coordinator", f"the certificate of {task} says more than its document")
        for diary in world.diaries:
            received = [sent for sent in diary.sent if sent.task == task and sent.receipt is not None]
            charged = sum(_paid(diary.books.parts.get(sent.key, {}).get(sent.part, Pure(0))) for sent in received)
            if float(charged) > float(told["epsilon"]) * (1 + _SLACK):
                yield Broken("I4", diary.name, f"the certificate of {task} promises more than {charged} paid for")
        counted = parts.get((task, world.registry.tasks[task]["part"]))
        asked = world.registry.tasks[task]["sites"] is None and phase == world.registry.tasks[task]["phase"]
        if asked and told["contributors"] != counted:
            yield Broken("I4", "coordinator", f"the certificate of {task} names {told['contributors']}, not {counted}")


# --- I5 -------------------------------------------------------------------------------------------------


def only_documents(world: World) -> Iterator[Broken]:
    """Check that what owners were given is a document that passes its check, the same for everybody, and stands in the
    list."""
    previous = START
    listed: dict[str, str] = {}
    for index, entry in enumerate(world.registry.listed):
        right = hash_of(index, entry["task_id"], entry["digest"], previous)
        if (entry["index"], entry["previous"], entry["hash"]) != (index, previous, right):
            yield Broken("I5", "coordinator", f"the list is broken at entry {index}")
        previous = entry["hash"]
        listed[entry["task_id"]] = entry["digest"]
    known = {task: row["digest"] for task, row in world.registry.tasks.items()}
    stored = [("coordinator", task, row["digest"], row["document"]) for task, row in world.registry.tasks.items()]
    for diary in world.diaries:
        stored += [(diary.name, task, digest, body) for task, (digest, body) in diary.documents.items()]
    for cabinet in world.cabinets:
        stored += [(cabinet.name, task, row["digest"], row["document"]) for task, row in cabinet.requests.items()]
    for where, task, digest, body in stored:
        try:
            if registry.check(body).digest != digest:
                yield Broken("I5", where, f"the document of {task} is not the one of its digest")
        except Mistake as mistake:
            yield Broken("I5", where, f"the document of {task} is none: {mistake}")
        if known.get(task) != digest or (listed.get(task) != digest and where == "coordinator"):
            yield Broken("I5", where, f"{task} is not the same everywhere")


# --- I6 -------------------------------------------------------------------------------------------------


def same_code(world: World) -> Iterator[Broken]:
    """A certificate from the network is the one that its document gets in one process."""
    for task, release in world.registry.latest.items():
        row = world.registry.tasks[task]
        for difference in differences(row["document"], release, row["sites"]):
            yield Broken("I6", "coordinator", f"{task}, of {row['document']['type']}: {difference}")


# --- I7 -------------------------------------------------------------------------------------------------


def nothing_lost(world: World) -> Iterator[Broken]:
    """No contribution counts twice, none with a receipt is gone, no answer is lost, no noise was drawn twice."""
    yield from _counted(world)
    yield from _released(world)
    if world.helper is not None:
        yield from _helped(world, world.helper)
    for cabinet in world.cabinets:
        yield from _audited(cabinet)
        made = Counter((f["task"], f["part"]) for event, f in cabinet.audited if event == "answer" and not f["again"])
        kept = {(answer["task"], answer["part"]) for answer in cabinet.answers}
        for (task, part), times in made.items():
            if times > 1:
                yield Broken("I7", cabinet.name, f"noise was drawn {times} times for {part} of {task}")
            if (task, part) not in kept:
                yield Broken("I7", cabinet.name, f"that {part} of {task} was answered is forgotten")


def _audited(cabinet: Cabinet) -> Iterator[Broken]:
    audit = Audit(cabinet.home / "audit.db")
    try:
        audit.verify()
    except Tampered as tampered:
        yield Broken("I7", cabinet.name, f"the audit log is not whole: {tampered}")
    finally:
        audit.close()


def _counted(world: World) -> Iterator[Broken]:
    receipts = Counter(row["receipt"] for row in world.registry.contributions)
    if any(times > 1 for times in receipts.values()):
        yield Broken("I7", "coordinator", "two contributions have one receipt")
    heard: Counter[tuple[str, str, str]] = Counter()
    for row in world.registry.contributions:
        whose = world.of(row["task"], row["contributor"])
        if whose is not None:
            heard[row["task"], row["part"], whose[0].name] += 1
    for (task, part, name), times in heard.items():
        if times > 1:
            yield Broken("I7", name, f"was counted {times} times in {part} of {task}")
    here = {(row["task"], row["part"], row["receipt"]) for row in world.registry.contributions}
    for diary in world.diaries:
        for sent in diary.sent:
            kept = sent.receipt is None or (sent.task, sent.part, sent.receipt) in here or sent.state == "withdrawn"
            if not kept:
                yield Broken("I7", diary.name, f"{sent.part} of {sent.task} has a receipt and is not there")
    parts = Counter((row["task"], row["part"]) for row in world.registry.contributions)
    for task, row in world.registry.tasks.items():
        if row["sites"] is None and row["counts"] in (None, f"[{row['accepted']}]"):
            there = parts.get((task, row["part"]), 0)
            if there != row["accepted"]:
                yield Broken("I7", "coordinator", f"{task} counts {row['accepted']} contributions and has {there}")


def _released(world: World) -> Iterator[Broken]:
    latest = world.registry.latest
    for task, row in world.registry.tasks.items():
        if row["status"] == "done" and task not in latest:
            yield Broken("I7", "coordinator", f"{task} is done and its answer is gone")
        if row["trusted"] and row["status"] in _FINAL and task in world.registry.keys:
            yield Broken("I7", "coordinator", f"{task} is {row['status']} and what was sent can still be opened")
    served: list[tuple[str, str, Any]] = [("a witness", task, body) for task, body in world.witnessed.items()]
    for diary in world.diaries:
        served += [(diary.name, task, body) for task, body in diary.results.items()]
    for where, task, body in served:
        if latest.get(task) != body:
            yield Broken("I7", where, f"was served another answer to {task} than there is now")


def _helped(world: World, home: Path) -> Iterator[Broken]:
    """A helper said one sum of whatever was released, of sites one for each round, and has the key of no task that it
    said the last one of."""
    tasks = {row["task"]: row for row in rows(home / "helping.db", "SELECT task, state, closed FROM helped")}
    cabinet = Cabinet(home)
    yield from _audited(cabinet)
    sums = Counter(facts["task"] for event, facts in cabinet.audited if event == "help add")
    for task, release in world.registry.latest.items():
        document = world.registry.tasks[task]["document"]
        if document.get("server") == "split" and (task not in tasks or tasks[task]["closed"] is None):
            yield Broken("I7", home.name, f"{task} was released and its helper has said no sum of it")
        if document.get("noise") == "split":
            rounds = max((release["coverage"].get("rounds") or {"": 1}).values())
            if sums[task] < rounds:
                yield Broken("I7", home.name, f"{task} has {rounds} rounds, and its helper said {sums[task]} sums")
    open_ones = sum(row["state"] == "open" for row in tasks.values())
    kept = sum("." not in path.name for path in (home / "helping").iterdir())
    if kept > open_ones:
        yield Broken("I7", home.name, f"has the keys of {kept} tasks, of which {open_ones} are open")


# --- amounts --------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _slots(slot: str) -> set[str]:
    return {slot_of(slot, packet) for packet in range(_MOST_PACKETS)}


def _paid(loss: Loss) -> Decimal:
    """The epsilon of what a person was charged, exactly."""
    return Decimal(loss.epsilon) if isinstance(loss, (Pure, Approximate)) else Decimal("Infinity")


def _epsilon(loss: Loss, delta: Decimal) -> float:
    told = _together([loss], delta)
    return float("inf") if told is None else told


def _together(losses: list[Loss], delta: Decimal) -> float | None:
    """Return what several charges of one document are as an epsilon at its delta; None where that cannot be said."""
    if all(isinstance(loss, (Pure, Approximate)) for loss in losses):
        return float(sum((_paid(loss) for loss in losses), Decimal(0)))
    if delta and all(isinstance(loss, Concentrated) for loss in losses):
        rho = sum((loss.rho for loss in losses if isinstance(loss, Concentrated)), Decimal(0))
        return float(concentrated_to_approximate(Concentrated(rho), delta=delta).epsilon)
    return None

"""Messages counted by day, from the chats that WhatsApp exports as text."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import SourceFile, broken, lines, members
from thebes.privacy.faults import Mistake

_WANTED = re.compile(r"(^|/)(_chat|[^/]*(whatsapp|واتساب)[^/]*)\.txt$", re.IGNORECASE)
_SOUGHT = "_chat.txt, or a .txt with WhatsApp in its name"
_MARK = "\u200e"  #: stands before what an app wrote itself: notices, and words in place of pictures
_MARKS = "[\u200e\u200f\u202a-\u202e\u2066-\u2069]*"
#: [31.12.21, 23:59:59] Ana: text · 12/31/21, 11:59 PM - Ana: text · 2021-12-31 23:59 - Ana: text · and so on
_HEAD = re.compile(
    rf"{_MARKS}\[?{_MARKS}(\d{{1,4}}){_MARKS}([./-])\s?{_MARKS}(\d{{1,2}}){_MARKS}\2\s?{_MARKS}(\d{{1,4}})\b"
    r"[^\]\d-]{1,16}\d{1,2}[:.]\d{2}(?:[:.]\d{2})?[^\]\d-]{0,16}(?:\]|\s[-–])\s?"
)
_SENDER = re.compile(r"([^:]{1,100}):(?:\s|$)(.*)")
_LEADING = "~ \u00a0\u202f\u200e\u200f\u202a\u202c\u2068\u2069"  #: before or behind a name
_REPLACED = re.compile(r"\u200e|<[^<>]*>$")  #: words in place of a picture
_ORDERS = {"dmy": (2, 1, 0), "mdy": (2, 0, 1), "ymd": (0, 1, 2)}  #: places of year, month and day
_FIRST, _LAST = date(2009, 1, 1), date(2100, 1, 1)


class Whatsapp(Collector):
    """Counts of a day: of others it is counted that they wrote, as they did not agree to more."""

    name = "whatsapp"
    version = 1
    description = "How much you write and receive on WhatsApp."
    reads = (
        "The chats that you exported from WhatsApp (More, Export chat, without media): .txt files, or the .zip they "
        "come in. Of each day in how many chats somebody wrote, how many messages you sent and received, and how many "
        "words were yours. Never what anybody wrote, names of others or of chats, or times of day."
    )
    tables = (
        table(
            "days",
            "One row for each day on which somebody wrote",
            day=("timestamp", "midnight, as the telephone's clock said"),
            chats=("integer", "chats in which somebody wrote"),
            sent=("integer", "messages of yours"),
            received=("integer", "messages of others"),
            words=("integer", "words of yours"),
        ),
    )
    options = (
        Option("file", "a chat's .txt or .zip, or a folder of them", "path", required=True, several=True),
        Option("me", "your own name, as it stands in the chats", required=True, several=True),
        Option("dates", "how days like 03/04/26 are meant: dmy, mdy or ymd, where the chats do not show it"),
    )

    def collect(self, session: Session) -> None:
        dates = session.options["dates"]
        if dates not in (None, *_ORDERS):
            raise Mistake("--dates", f"must be one of {', '.join(_ORDERS)}")
        looks = [_look(chat, dates) for chat in _chats(session)]
        shown = {look.order for look in looks} - {None, "ymd"}
        diary, seen = _Diary({name.strip() for name in session.options["me"]}), set[bytes]()
        for look, chat in zip(looks, _chats(session), strict=True):
            order = look.order or (shown.copy().pop() if len(shown) == 1 else None)
            if order is None:
                raise Mistake("--dates", f"is needed, dmy or mdy: the days of {chat.name} could be either")
            if look.digest in seen:
                session.leave_out("a chat that was given twice")
            else:
                diary.read(chat, order)
            seen.add(look.digest)
        if not diary.found_me:
            raise Mistake("--me", "wrote nothing in these chats; the name must be spelled as it stands there")
        *whole, _ = sorted(diary.days)
        session.leave_out("the newest day, which may not be over")
        for day in whole:
            at = datetime(day.year, day.month, day.day, tzinfo=UTC)
            counts = {name: diary.days[day][name] for name in ("chats", "sent", "received", "words")}
            session.insert("days", {"day": at, **counts}, key=["day", at])


def _chats(session: Session) -> Iterator[SourceFile]:
    for file in session.options["file"]:
        yield from members(file, lambda name: _WANTED.search(name) is not None, _SOUGHT)


@dataclass(frozen=True, slots=True)
class _Look:
    """A chat's digest, and the order of its dates where it shows one."""

    digest: bytes
    order: str | None


def _look(chat: SourceFile, dates: str | None) -> _Look:
    """Read a chat once for the order of its dates: some order makes days that do not exist, or goes back in time."""
    digest, orders = hashlib.sha256(), [dates] if dates else ["dmy", "mdy"]
    back, last = Counter[str](), dict[str, date]()
    for line, numbers, text in _lines(chat):
        digest.update(f"{numbers}{text}\n".encode("utf-8", "replace"))
        if numbers is None:
            continue
        orders = ["ymd"] if len(numbers[0]) == 4 else orders
        days = {order: day for order in orders if (day := _day(numbers, order)) is not None}
        if not days:
            raise broken(chat.name, line, "has a date that cannot be read")
        orders = [*days]
        back.update(order for order, day in days.items() if order in last and day < last[order])
        last = days
    least = min(back[order] for order in orders)
    best = [order for order in orders if back[order] == least]
    return _Look(digest.digest(), best[0] if len(best) == 1 else None)


@dataclass(slots=True)
class _Diary:
    """Counts of each day, over chats that are read one after the other."""

    me: set[str]
    days: defaultdict[date, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    found_me: bool = False

    def read(self, chat: SourceFile, order: str) -> None:
        seen, mine, day = set[date](), False, None
        for line, numbers, text in _lines(chat):
            if numbers is None:
                if mine and day is not None:
                    self.days[day]["words"] += len(text.split())
                continue
            mine, begins = False, day is None
            if (day := _day(numbers, order)) is None:
                raise broken(chat.name, line, "has a date that cannot be read")
            named = _SENDER.match(text)
            if named is None or (begins and named[2].startswith(_MARK)):
                continue  # notices of the app: the first of a chat stands under a name
            seen.add(day)
            mine = named[1].strip(_LEADING) in self.me
            self.found_me |= mine
            self.days[day]["sent" if mine else "received"] += 1
            if mine and not _REPLACED.match(named[2]):
                self.days[day]["words"] += len(named[2].split())
        for day in seen:
            self.days[day]["chats"] += 1


def _lines(chat: SourceFile) -> Iterator[tuple[int, Sequence[str] | None, str]]:
    """Yield (line, the three numbers of the date it begins with or None, what stands behind it)."""
    begun = False
    for line, text in lines(chat.stream, chat.name):
        head = _HEAD.match(text[:200])
        if head is not None:
            begun = True
            yield line, head.group(1, 3, 4), text[head.end() :]
        elif begun:
            yield line, None, text
        elif text.strip():
            raise broken(chat.name, line, "is not the beginning of a chat that WhatsApp exports")
    if not begun:
        raise broken(chat.name, None, "is empty")


def _day(numbers: Sequence[str], order: str) -> date | None:
    year, month, day = (int(numbers[place]) for place in _ORDERS[order])
    try:
        found = date(year + 2000 if year < 100 else year, month, day)
    except ValueError:
        return None
    return found if _FIRST <= found < _LAST else None

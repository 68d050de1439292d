"""Entries of bank accounts, from CAMT.053 statements and from tables that banks export."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.delimited import records
from thebes.collectors.session import Session, digest
from thebes.collectors.sources import SourceFile, broken, members, moment, words
from thebes.collectors.stream_parser import elements
from thebes.privacy.faults import Mistake

_ENTRY = ("Document", "BkToCstmrStmt", "Stmt", "Ntry")
_PARTIES = ("NtryDtls", "TxDtls", "RltdPties")
_PAID = {"DBIT": -1, "CRDT": 1}
MOST_ENTRIES = 1_000_000  #: of one file; more have no account


class Bank(Collector):
    """Amounts by day and kind. Entries are told apart without references: the same entry again is a new row only where
    a file holds it more often than any file before did."""

    name = "bank"
    version = 1
    description = "What your bank account receives and pays."
    reads = (
        "The statements you name: CAMT.053 (.xml), or a bank's .csv with --layout; also inside a .zip. Of each booked "
        "entry the day, the amount, the currency and what kind of entry it is; whom you paid, or who paid you, only "
        "with --payee. Never account numbers, references, purposes or balances."
    )
    tables = (
        table(
            "entries",
            "Booked entries",
            at=("timestamp", "day of booking, as written; with a time where the bank says one"),
            amount=("float", "above zero received, below zero paid"),
            currency=("string", "such as EUR"),
            family=("string", "kind of entry: in a .csv the bank's own word, else a code of ISO 20022, if it has one"),
            payee=("string", "whom you paid, or who paid you; empty unless installed with --payee"),
        ),
    )

    options = (
        Option("file", "a statement (.xml, .csv), or a .zip or folder of them", "path", required=True, several=True),
        Option("layout", "which bank a .csv comes from: boursorama, dkb, ing-nl, n26, rabobank, revolut or sparkasse"),
        Option("payee", "keep the names of those whom you paid, or who paid you", "flag"),
    )

    def collect(self, session: Session) -> None:
        layout = None if (named := session.options["layout"]) is None else _LAYOUTS.get(named)
        if layout is None and named is not None:
            raise Mistake("--layout", f"must be one of {', '.join(_LAYOUTS)}; for another bank's take `table`")
        ends = (".xml", ".camt") if layout is None else (".xml", ".camt", ".csv")
        sought = f"*{' or *'.join(ends)}{'' if layout else '; for .csv say --layout'}"
        for file in session.options["file"]:
            for member in members(file, lambda name: name.lower().endswith(ends), sought):
                if member.name.lower().endswith(".csv"):
                    if layout is None:
                        raise Mistake("--layout", f"is needed for a .csv: one of {', '.join(_LAYOUTS)}")
                    _insert(session, member, _rows(member, layout))
                else:
                    _insert(session, member, _statement(member))


@dataclass(frozen=True, slots=True)
class _BankEntry:
    line: int
    at: datetime
    amount: float
    currency: str | None
    family: str | None
    payee: str | None


def _insert(session: Session, member: SourceFile, entries: Iterator[_BankEntry | None]) -> None:
    seen: Counter[str] = Counter()
    for entry in entries:
        if entry is None:
            session.leave_out("not booked yet")
            continue
        row = {"at": entry.at, "amount": entry.amount, "currency": entry.currency, "family": entry.family}
        spelled = digest(row)
        seen[spelled] += 1
        if len(seen) > MOST_ENTRIES:
            raise broken(member.name, entry.line, "has more entries than any account")
        payee = entry.payee if session.options["payee"] else None
        session.insert("entries", {**row, "payee": payee}, key=[spelled, seen[spelled]])


def _statement(member: SourceFile) -> Iterator[_BankEntry | None]:
    """Read CAMT.053 as its entries end; what an entry says of itself stands in `said` by its path. None stands
    for one that is not booked."""
    said: dict[tuple[str, ...], str] = {}
    for path, attributes, text, line in elements(member.stream, member.name, doctype=False):
        if path[0] != "Document" or (len(path) > 1 and path[1] != _ENTRY[1]):
            raise broken(member.name, line, "is not a statement of an account (CAMT.053)")
        if path[: len(_ENTRY)] != _ENTRY:
            continue
        inside = path[len(_ENTRY) :]
        if inside:
            if inside in _READ:
                said.setdefault(inside, text)
            if inside == ("Amt",):
                said.setdefault(("Ccy",), attributes.get("Ccy", ""))
            continue
        status = said.get(("Sts", "Cd")) or said.get(("Sts",)) or "BOOK"
        yield _booked(member, said, line) if status == "BOOK" else None
        said.clear()


def _paths(*names: str) -> set[tuple[str, ...]]:
    """Read paths as they are written, with a slash between names."""
    return {tuple(name.split("/")) for name in names}


_READ = _paths("Amt", "CdtDbtInd", "Sts", "Sts/Cd", "BkTxCd/Domn/Cd", "BkTxCd/Domn/Fmly/Cd") | {
    *_paths("BookgDt/Dt", "BookgDt/DtTm", "ValDt/Dt", "ValDt/DtTm"),
    *((*_PARTIES, party, *name) for party in ("Cdtr", "Dbtr") for name in (("Nm",), ("Pty", "Nm"))),
}


def _booked(member: SourceFile, said: Mapping[tuple[str, ...], str], line: int) -> _BankEntry:
    sign, amount = _PAID.get(said.get(("CdtDbtInd",), "")), said.get(("Amt",), "")
    days = [said.get((day, form), "") for day in ("BookgDt", "ValDt") for form in ("Dt", "DtTm")]
    at = next((found for day in days if (found := _iso(day)) is not None), None)
    if sign is None or at is None or not re.fullmatch(r"\d{1,18}(\.\d{1,5})?", amount, re.ASCII):
        raise broken(member.name, line, "has an entry without an amount, a direction or a day that can be read")
    family = [code for path in (("Domn", "Cd"), ("Domn", "Fmly", "Cd")) if (code := said.get(("BkTxCd", *path)))]
    other = (*_PARTIES, "Cdtr" if sign < 0 else "Dbtr")
    return _BankEntry(
        line,
        at,
        sign * float(amount),
        words(said.get(("Ccy",)) or None, 3),
        words("-".join(family) or None, 20),
        words(said.get((*other, "Nm")) or said.get((*other, "Pty", "Nm")) or None, 200),
    )


def _iso(text: str) -> datetime | None:
    """Read a day, or a day and a time; some banks write an offset behind a day."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:Z|[+-]\d\d:\d\d)?", text, re.ASCII)
    return moment(text if found is None else f"{found[1]}T00:00:00")


@dataclass(frozen=True, slots=True)
class _BankLayout:
    """The columns of one bank's table. `currency` is a column, or what it always is; `booked` is a column and the text
    that says that an entry counts; `paid` a column and the text that says that an amount without a sign was paid."""

    at: str
    forms: Sequence[str]
    amount: str
    family: str
    payee: Sequence[str]  #: columns: who was paid, and, if another, who paid
    currency: str = "EUR"
    decimals: str = ","
    encoding: str = "utf-8"
    booked: tuple[str, str] | None = None
    paid: tuple[str, str] | None = None

    @property
    def needed(self) -> list[str]:
        said = [each[0] for each in (self.booked, self.paid) if each is not None]
        return [self.at, self.amount, self.family, *said]


_LAYOUTS = {
    "boursorama": _BankLayout("dateOp", ("%Y-%m-%d", "%d/%m/%Y"), "amount", "category", ["supplierFound"]),
    "dkb": _BankLayout(
        "Buchungsdatum",
        ("%d.%m.%y", "%d.%m.%Y"),
        "Betrag (€)",
        "Umsatztyp",
        ["Zahlungsempfänger*in", "Zahlungspflichtige*r"],
        booked=("Status", "Gebucht"),
    ),
    "ing-nl": _BankLayout("Datum", ("%Y%m%d",), "Bedrag (EUR)", "Code", ["Naam / Omschrijving"], paid=("Af Bij", "Af")),
    "n26": _BankLayout("Booking Date", ("%Y-%m-%d",), "Amount (EUR)", "Type", ["Partner Name"], decimals="."),
    "rabobank": _BankLayout(
        "Datum", ("%Y-%m-%d",), "Bedrag", "Code", ["Naam tegenpartij"], currency="Munt", encoding="cp1252"
    ),
    "revolut": _BankLayout(
        "Completed Date",
        ("%Y-%m-%d %H:%M:%S",),
        "Amount",
        "Type",
        ["Description"],
        currency="Currency",
        decimals=".",
        booked=("State", "COMPLETED"),
    ),
    "sparkasse": _BankLayout(
        "Buchungstag",
        ("%d.%m.%y", "%d.%m.%Y"),
        "Betrag",
        "Buchungstext",
        ["Beguenstigter/Zahlungspflichtiger"],
        currency="Waehrung",
        encoding="cp1252",
        booked=("Info", "Umsatz gebucht"),
    ),
}


def _rows(member: SourceFile, layout: _BankLayout) -> Iterator[_BankEntry | None]:
    for line, row in records(member, layout.needed, encoding=layout.encoding):
        if layout.booked is not None and row[layout.booked[0]].strip() != layout.booked[1]:
            yield None
            continue
        at, amount = _day(row[layout.at].strip(), layout.forms), _amount(row[layout.amount], layout.decimals)
        if at is None or amount is None:
            raise broken(member.name, line, "has no amount or no day that can be read")
        if layout.paid is not None and row[layout.paid[0]].strip() == layout.paid[1]:
            amount = -amount
        payee = layout.payee[0 if amount < 0 else -1]
        yield _BankEntry(
            line,
            at,
            amount,
            words(row.get(layout.currency, layout.currency).strip() or None, 3),
            words(row[layout.family].strip() or None, 100),
            words((row.get(payee) or "").strip() or None, 200),
        )


def _day(text: str, forms: Sequence[str]) -> datetime | None:
    for form in forms:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _amount(text: str, decimals: str) -> float | None:
    """Read an amount with its sign, in thousands or not, with the sign of euro behind it or not."""
    plain = re.sub(r"[\s€]", "", text).replace("−", "-")
    thousands, point = (r"\.", ",") if decimals == "," else (",", r"\.")
    if not re.fullmatch(rf"[+-]?(\d{{1,3}}({thousands}\d{{3}})+|\d{{1,15}})({point}\d{{1,4}})?", plain, re.ASCII):
        return None
    return float(plain.replace("." if decimals == "," else ",", "").replace(",", "."))

"""Statements of banks, made here to the standard and to the layouts that banks publish, in several languages."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thebes.collectors.session import Outcome
from thebes.collectors.shipped.bank import Bank
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk

IBAN, REFERENCE = "DE02120300000000202051", "E2E-4711"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


def entries(home: HomeOnDisk) -> list[tuple[Any, ...]]:
    rows = home.rows("bank", "entries")
    return [(row["at"], row["amount"], row["currency"], row["family"], row["payee"]) for row in rows]


def entry(amount: str, sign: str, *, status: str = "<Sts>BOOK</Sts>", name: str = "<Nm>Zoë secret</Nm>") -> str:
    return f"""
<Ntry><NtryRef>{REFERENCE}</NtryRef><Amt Ccy="EUR">{amount}</Amt><CdtDbtInd>{sign}</CdtDbtInd>{status}
 <BookgDt><Dt>2026-03-01</Dt></BookgDt><ValDt><Dt>2026-03-02</Dt></ValDt><AcctSvcrRef>{REFERENCE}</AcctSvcrRef>
 <BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>ICDT</Cd><SubFmlyCd>ESCT</SubFmlyCd></Fmly></Domn></BkTxCd>
 <NtryDtls><TxDtls><Amt Ccy="USD">999.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><RltdPties>
  <Dbtr><Nm>Ana secret</Nm></Dbtr><Cdtr>{name}</Cdtr><CdtrAcct><Id><IBAN>{IBAN}</IBAN></Id></CdtrAcct>
 </RltdPties><RmtInf><Ustrd>a secret purpose</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>"""


def statement(*entries: str, version: str = "02") -> str:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.{version}"><BkToCstmrStmt><Stmt>
<Acct><Id><IBAN>{IBAN}</IBAN></Id></Acct><Bal><Amt Ccy="EUR">123456.78</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>
{"".join(entries)}</Stmt></BkToCstmrStmt></Document>"""


OLD = statement(entry("12.34", "DBIT"), entry("12.34", "DBIT"), entry("5", "DBIT", status="<Sts>PDNG</Sts>"))
NEW = statement(
    entry("2500.00", "CRDT", status="<Sts><Cd>BOOK</Cd></Sts>", name="<Pty><Nm>x</Nm></Pty>"), version="08"
).replace("<Document ", "<n:Document ", 1)
NEW = NEW.replace("</Document>", "</n:Document>")


def test_entries_of_statements_without_accounts_and_references(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "statements.zip", "w") as archive:
        archive.writestr("2026-03-01.xml", OLD)
        archive.writestr("2026-03-02.xml", NEW)
        archive.writestr("letter.pdf", "")
    file = ("--file", str(tmp_path / "statements.zip"))
    assert home.collect(Bank(), *file) == Outcome(3, 0, {"not booked yet": 1})
    assert home.collect(Bank(), *file) == Outcome(0, 3, {"not booked yet": 1})
    assert entries(home) == [
        ("2026-03-01 00:00:00", -12.34, "EUR", "PMNT-ICDT", None),
        ("2026-03-01 00:00:00", -12.34, "EUR", "PMNT-ICDT", None),
        ("2026-03-01 00:00:00", 2500.0, "EUR", "PMNT-ICDT", None),
    ]
    for private in ("secret", IBAN, REFERENCE, "4711", "999", "123456"):
        assert private not in json.dumps(home.store.export(), ensure_ascii=False)


def test_who_was_paid_or_paid_is_kept_when_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(statement(entry("1", "DBIT"), entry("2", "CRDT")), encoding="utf-8")
    (tmp_path / "y.xml").write_text(statement(entry("3", "DBIT", name="<Pty><Nm>Ole</Nm></Pty>"), version="08"))
    home.collect(Bank(), "--file", str(tmp_path / "x.xml"), "--file", str(tmp_path / "y.xml"), "--payee")
    assert [payee for *_, payee in entries(home)] == ["Zoë secret", "Ana secret", "Ole"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OLD.replace("<Document", "<!DOCTYPE Document SYSTEM 'http://127.0.0.1:1/'><Document", 1), "a document type"),
        (OLD.replace("<Document", "<!DOCTYPE D [<!ENTITY a 'secret'>]><Document", 1), "a document type"),
        (OLD.replace("BkToCstmrStmt", "BkToCstmrAcctRpt"), r"line 3: is not a statement"),
        ("<html>\n<body>secret</body></html>", "line 2: is not a statement"),
        (OLD.replace("12.34", "secret"), "line 10: has an entry without an amount"),
        (OLD.replace("DBIT", "secret"), "line 10: has an entry without an amount"),
        (OLD[:-40], "is not well-formed XML"),
        ("", "is not well-formed XML"),
    ],
)
def test_a_damaged_statement_is_named_and_nothing_is_stored(
    home: HomeOnDisk, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "x.xml").write_text(text, encoding="utf-8")
    with pytest.raises(Mistake, match=rf"x\.xml.*{said}") as told:
        home.collect(Bank(), "--file", str(tmp_path / "x.xml"))
    assert "secret" not in str(told.value)
    assert entries(home) == []


#: rows of a day's coffee and of wages, as each bank writes them, under its own columns
TABLES = {
    "sparkasse": (
        '"Auftragskonto";"Buchungstag";"Valutadatum";"Buchungstext";"Verwendungszweck";'
        '"Beguenstigter/Zahlungspflichtiger";"Kontonummer/IBAN";"Betrag";"Waehrung";"Info"\n'
        f'"{IBAN}";"01.03.26";"01.03.26";"KARTENZAHLUNG";"{REFERENCE}";"Käfer";"";"-3,40";"EUR";"Umsatz gebucht"\n'
        f'"{IBAN}";"01.03.26";"01.03.26";"GUTSCHRIFT";"{REFERENCE}";"Chef";"{IBAN}";"2.500,00";"EUR";"Umsatz gebucht"\n'
        f'"{IBAN}";"02.03.26";"";"KARTENZAHLUNG";"";"";"";"";"EUR";"Umsatz vorgemerkt"\n',
        ("KARTENZAHLUNG", "GUTSCHRIFT"),
    ),
    "dkb": (
        f'"Girokonto";"{IBAN}"\n""\n"Kontostand vom 02.03.2026:";"3.600,00 €"\n""\n'
        '"Buchungsdatum";"Wertstellung";"Status";"Zahlungspflichtige*r";"Zahlungsempfänger*in";"Verwendungszweck";'
        '"Umsatztyp";"IBAN";"Betrag (€)"\n'
        f'"01.03.26";"01.03.26";"Gebucht";"Ana";"Käfer";"{REFERENCE}";"Ausgang";"{IBAN}";"-3,40\u00a0€"\n'
        f'"01.03.26";"01.03.26";"Gebucht";"Chef";"Ana";"{REFERENCE}";"Eingang";"{IBAN}";"2.500,00\u00a0€"\n'
        '"02.03.26";"";"Vorgemerkt";"Ana";"x";"";"Ausgang";"";"-1"\n',
        ("Ausgang", "Eingang"),
    ),
    "ing-nl": (
        '"Datum";"Naam / Omschrijving";"Rekening";"Tegenrekening";"Code";"Af Bij";"Bedrag (EUR)";"Mededelingen"\n'
        f'"20260301";"Käfer";"{IBAN}";"";"BA";"Af";"3,40";"{REFERENCE}"\n'
        f'"20260301";"Chef";"{IBAN}";"";"OV";"Bij";"2500,00";"{REFERENCE}"\n',
        ("BA", "OV"),
    ),
    "rabobank": (
        '"IBAN/BBAN","Munt","BIC","Volgnr","Datum","Rentedatum","Bedrag","Saldo na trn","Naam tegenpartij","Code"\n'
        f'"{IBAN}","EUR","X","1","2026-03-01","2026-03-01","-3,40","+1,00","Käfer","ba"\n'
        f'"{IBAN}","EUR","X","2","2026-03-01","2026-03-01","+2500,00","+1,00","Chef","cb"\n',
        ("ba", "cb"),
    ),
    "n26": (
        '"Booking Date","Value Date","Partner Name","Partner Iban",Type,"Payment Reference","Amount (EUR)"\n'
        f'2026-03-01,2026-03-01,"Käfer",{IBAN},Presentment,"{REFERENCE}",-3.40\n'
        f'2026-03-01,2026-03-01,Chef,{IBAN},"Credit Transfer","{REFERENCE}",2500.00\n',
        ("Presentment", "Credit Transfer"),
    ),
    "revolut": (
        "Type,Product,Started Date,Completed Date,Description,Amount,Fee,Currency,State,Balance\n"
        "CARD_PAYMENT,Current,2026-02-28 10:00:00,2026-03-01 00:00:00,Käfer,-3.40,0.00,EUR,COMPLETED,1\n"
        "TOPUP,Current,2026-02-28 10:00:00,2026-03-01 00:00:00,Chef,2500.00,0.00,EUR,COMPLETED,1\n"
        "CARD_PAYMENT,Current,2026-03-02 10:00:00,,x,-1.00,0.00,EUR,REVERTED,\n",
        ("CARD_PAYMENT", "TOPUP"),
    ),
    "boursorama": (
        "dateOp;dateVal;label;category;categoryParent;supplierFound;amount;comment;accountNum;accountLabel\n"
        f'2026-03-01;2026-03-01;"CARTE {REFERENCE}";"Café";"Vie quotidienne";"Käfer";-3,40;;{IBAN};x\n'
        f'01/03/2026;2026-03-01;"VIR {REFERENCE}";"Virements reçus";"Virements";"Chef";"2 500,00";;{IBAN};x\n',
        ("Café", "Virements reçus"),
    ),
}


@pytest.mark.parametrize("layout", TABLES)
def test_tables_of_banks_are_read_by_the_name_of_their_layout(home: HomeOnDisk, tmp_path: Path, layout: str) -> None:
    text, (paying, paid) = TABLES[layout]
    encoding = "cp1252" if layout in ("sparkasse", "rabobank") else "utf-8-sig"
    (tmp_path / "x.csv").write_text(text, encoding=encoding)
    arguments = ("--file", str(tmp_path / "x.csv"), "--layout", layout, "--payee")
    outcome = home.collect(Bank(), *arguments)
    assert home.collect(Bank(), *arguments).inserted == 0
    assert entries(home) == [
        ("2026-03-01 00:00:00", -3.4, "EUR", paying, "Käfer"),
        ("2026-03-01 00:00:00", 2500.0, "EUR", paid, "Chef"),
    ]
    assert outcome.left_out == ({"not booked yet": 1} if layout in ("sparkasse", "dkb", "revolut") else {})
    for private in (IBAN, REFERENCE):
        assert private not in json.dumps(home.store.export(), ensure_ascii=False)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("-3.40", "secret"), r"x\.csv, line 2: has no amount"),
        (("2026-03-01,2026-03-01,Chef", "secret,2026-03-01,Chef"), r"x\.csv, line 3: has no amount or no day"),
        (("-3.40", "-3,40"), r"x\.csv, line 2: has 8 fields"),
        (("Amount (EUR)", "secret"), r"x\.csv: has no line with the columns Booking Date, Amount \(EUR\), Type"),
    ],
)
def test_a_damaged_table_is_named_with_its_line(
    home: HomeOnDisk, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    (tmp_path / "x.csv").write_text(TABLES["n26"][0].replace(*change), encoding="utf-8")
    with pytest.raises(Mistake, match=said) as told:
        home.collect(Bank(), "--file", str(tmp_path / "x.csv"), "--layout", "n26")
    assert "secret" not in str(told.value)
    assert entries(home) == []


def test_a_table_needs_a_layout_that_there_is(home: HomeOnDisk, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(TABLES["n26"][0])
    with pytest.raises(Mistake, match=r"--layout: is needed for a \.csv: one of boursorama"):
        home.collect(Bank(), "--file", str(tmp_path / "x.csv"))
    with pytest.raises(Mistake, match=r"--layout: must be one of .*`table`"):
        home.collect(Bank(), "--file", str(tmp_path / "x.csv"), "--layout", "mine")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("x.csv", TABLES["n26"][0])
    with pytest.raises(Mistake, match=r"it looks for \*\.xml or \*\.camt; for \.csv say --layout"):
        home.collect(Bank(), "--file", str(tmp_path / "x.zip"))

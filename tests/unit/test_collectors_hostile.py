"""Files made to do harm: reading them ends soon, in a Mistake that names the file, with nothing stored."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sqlite3
import tarfile
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.collectors import sources, stream_parser
from thebes.collectors.shipped import bank, health
from thebes.collectors.shipped.bank import Bank
from thebes.collectors.shipped.browser import Browser
from thebes.collectors.shipped.calendar import Calendar
from thebes.collectors.shipped.github import Github
from thebes.collectors.shipped.health import Health
from thebes.collectors.shipped.location import Location
from thebes.collectors.shipped.netflix import Netflix
from thebes.collectors.shipped.shell import Shell
from thebes.collectors.shipped.spotify import Spotify
from thebes.collectors.shipped.table import TableFile
from thebes.collectors.shipped.whatsapp import Whatsapp
from thebes.collectors.shipped.youtube import Youtube
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


LAUGHS = '<!DOCTYPE HealthData [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
)
BOMBS = {
    "a billion laughs": f'{LAUGHS}]><HealthData><Record type="&j;"/></HealthData>',
    "one entity": '<!DOCTYPE HealthData [<!ENTITY a "ha">]><HealthData>&a;</HealthData>',
    "a file outside": '<!DOCTYPE HealthData [<!ENTITY a SYSTEM "file:///etc/passwd">]><HealthData>&a;</HealthData>',
    "a parameter entity": '<!DOCTYPE HealthData [<!ENTITY % a SYSTEM "http://127.0.0.1:1/x"> %a;]><HealthData/>',
    "too deep": "<HealthData>" + "<a>" * 100_000,
    "cut off": "<HealthData><Record",
    "an unknown encoding": '<?xml version="1.0" encoding="no-such"?><HealthData/>',
    "another root": "<html><body/></html>",
    "no time": '<HealthData>\n<Record type="x" value="1"/></HealthData>',
    "nothing": "",
    "zeros": "\0" * 1000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_xml_that_would_explode_or_fetch(home: HomeOnDisk, tmp_path: Path, name: str) -> None:
    (tmp_path / "export.xml").write_text(BOMBS[name])
    with pytest.raises(Mistake, match=r"export\.xml"):
        home.collect(Health(), "--file", str(tmp_path / "export.xml"))
    assert home.rows("health", "daily") == []


def test_one_attribute_larger_than_memory_should_hold(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_parser, "LARGEST_ITEM", 2**18)
    (tmp_path / "export.xml").write_text(f'<HealthData><Record type="{"x" * 2**20}"/></HealthData>')
    with pytest.raises(Mistake, match="too large"):
        home.collect(Health(), "--file", str(tmp_path / "export.xml"))


def test_one_element_larger_than_memory_should_hold(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_parser, "LARGEST_ITEM", 2**18)
    (tmp_path / "Records.json").write_text('{"locations": [{"x": "' + "y" * 2**20)
    with pytest.raises(Mistake, match="too large"):
        home.collect(Location(), "--file", str(tmp_path / "Records.json"))


def test_an_archive_that_unpacks_to_far_more_than_its_size(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LEAST_UNPACKED", 2**16)
    bomb = b"<HealthData>" + b" " * 2**24
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export.xml", bomb)
    with pytest.raises(Mistake, match="far more"):
        home.collect(Health(), "--file", str(tmp_path / "export.zip"))
    with tarfile.open(tmp_path / "export.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("issues_000001.json")
        info.size = 2**24
        tar.addfile(info, io.BytesIO(b" " * 2**24))
    with pytest.raises(Mistake, match="far more"):
        home.collect(Github(), "--file", str(tmp_path / "export.tar.gz"), "--user", "ana")


def test_damaged_encrypted_and_truncated_archives(home: HomeOnDisk, tmp_path: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "mine.ics", "BEGIN:VCALENDAR\n" + "".join(f"X-A:{n}\n" for n in range(5000)) + "END:VCALENDAR\n"
        )
    content = bytearray(whole.getvalue())
    locked = bytearray(content)
    locked[6] |= 1  # says that it is encrypted
    locked[content.index(b"PK\x01\x02") + 8] |= 1
    content[2000] ^= 0xFF
    for name, damaged in (("a.zip", bytes(content)), ("b.zip", whole.getvalue()[:-400]), ("c.zip", bytes(locked))):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(Mistake, match=r"damaged|encrypted|not a property"):
            home.collect(Calendar(), "--file", str(tmp_path / name))
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(b"no tar" * 1000)[:-20])
    with pytest.raises(Mistake, match="damaged"):
        home.collect(Github(), "--file", str(tmp_path / "x.tar.gz"), "--user", "ana")


def test_links_and_devices_in_an_archive_are_not_followed(home: HomeOnDisk, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("issues_000001.json")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
    with pytest.raises(Mistake, match="holds no file"):
        home.collect(Github(), "--file", str(tmp_path / "x.tar.gz"), "--user", "ana")


def test_a_folder_is_read_without_following_what_is_no_file(home: HomeOnDisk, tmp_path: Path) -> None:
    folder = tmp_path / "calendars"
    folder.mkdir()
    (folder / "loop").symlink_to(folder)
    (folder / "mine.ics").write_text(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260301T080000Z\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    assert home.collect(Calendar(), "--file", str(folder)).inserted == 1


def test_numbers_and_texts_that_no_cell_holds(home: HomeOnDisk, tmp_path: Path) -> None:
    points = [
        {"latitudeE7": 10**400, "longitudeE7": 1, "timestamp": "2026-03-01T08:00:00Z"},
        {"latitudeE7": "1e999", "longitudeE7": True, "timestamp": "2026-03-01T08:00:00Z"},
        {"latitudeE7": 1, "longitudeE7": 1, "timestampMs": "9" * 30},
        {"latitudeE7": 1, "longitudeE7": 1, "timestamp": "99999-01-01T00:00:00Z"},
        {"latitudeE7": [1], "longitudeE7": {}, "timestamp": 5},
        {"latitudeE7": 1, "longitudeE7": 1, "timestamp": "2026-03-01T08:00:00Z", "accuracy": "NaN"},
        None,
        [[]],
    ]
    (tmp_path / "Records.json").write_text(json.dumps({"locations": points}))
    assert home.collect(Location(), "--file", str(tmp_path / "Records.json")).inserted == 1
    (tmp_path / "mine.json").write_text('[{"a": "\\ud800 lone"}, {"a": "' + "x" * 300_000 + '"}]')
    assert home.collect(TableFile(), "--file", str(tmp_path / "mine.json"), app="mine").inserted == 2


READERS = [
    (Calendar, "x.ics", ()),
    (Location, "x.json", ()),
    (Location, "x.gpx", ()),
    (Health, "export.xml", ()),
    (Health, "Daily activity metrics.csv", ()),
    (Github, "issues_000001.json", ("--user", "ana")),
    (Shell, "bash_history", ()),
    (Shell, "zsh_history", ()),
    (Shell, "fish_history", ()),
    (TableFile, "x.csv", ()),
    (TableFile, "x.json", ()),
    (TableFile, "x.jsonl", ()),
    (TableFile, "x.parquet", ()),
    (Youtube, "watch-history.json", ("--channel",)),
    (Spotify, "endsong_0.json", ("--artist",)),
    (Netflix, "ViewingActivity.csv", ("--profile", "Ana")),
    (Whatsapp, "_chat.txt", ("--me", "Ana")),
    (Bank, "x.xml", ("--payee",)),
    (Bank, "x.csv", ("--layout", "n26")),
]
PIECES = st.sampled_from(
    [
        b"BEGIN:VCALENDAR\n",
        b"BEGIN:VEVENT\n",
        b"DTSTART:2026",
        b"END:VEVENT\n",
        b'{"locations":[',
        b'{"a":1},',
        b"]}",
        b"[",
        b"]",
        b"<HealthData>",
        b"<Record ",
        b'type="x" startDate="2026-01-01"',
        b"/>",
        b"</HealthData>",
        b"<gpx>",
        b"<trkpt ",
        b'"',
        b",",
        b"\n",
        b"a;b\n1;2\n",
        b"Date,a\n2026-01-01,3\n",
        b"- cmd: ls\n",
        b": 1:0;ls\\\n",
        b"#1772352000\n",
        b"\xff\x83",
        b"\x00",
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
        b"PAR1",
        b"SQLite format 3\x00",
        b"-1e400",
        b"NaN",
        b"\\ud800",
        b'[{"header":"YouTube","time":"2026-03-01T08:00:00Z"},',
        b'[{"ts":"2026-03-01T08:00:00Z","ms_played":1e999},',
        b"Profile Name,Start Time,Duration,Title,Supplemental Video Type\n",
        b"Ana,2026-03-01 08:00:00,00:00:01,x,\n",
        b"14.01.26, 10:00 - Ana: x\n",
        b"[3/4/26, 10:00:00\xe2\x80\xafPM] Ana: x\n",
        b"<Document><BkToCstmrStmt><Stmt>",
        b'<Ntry><Amt Ccy="EUR">1</Amt><CdtDbtInd>DBIT</CdtDbtInd><BookgDt><Dt>2026-03-01</Dt></BookgDt></Ntry>',
        b"</Stmt></BkToCstmrStmt></Document>",
        b"Booking Date,Amount (EUR),Type\n2026-03-01,1.00,x\n",
    ]
)


@pytest.mark.few(1)
@pytest.mark.parametrize(("collector", "name", "more"), READERS, ids=[f"{c.__name__}-{n}" for c, n, _ in READERS])
def test_whatever_stands_in_a_file_it_ends_in_rows_or_in_a_mistake(
    home: HomeOnDisk, tmp_path: Path, collector: type, name: str, more: tuple[str, ...]
) -> None:
    @given(content=st.lists(PIECES | st.binary(max_size=20), max_size=12).map(b"".join))
    @examples(15, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def every(content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        try:
            home.collect(collector(), "--file", str(tmp_path / name), *more, app="any")
        except Mistake as error:
            assert error.argument in ("file", "tables", "--me", "--profile", "--dates")  # noqa: PT017
        finally:
            if home.store.describe():
                home.store.remove("any", keep_data=False)

    every()


def test_a_history_with_any_damage_ends_in_rows_or_in_a_mistake(home: HomeOnDisk, tmp_path: Path) -> None:
    path = tmp_path / "History"
    database = sqlite3.connect(path)
    database.executescript(
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url, last_visit_time);"
        "CREATE TABLE visits (id INTEGER PRIMARY KEY, url, visit_time, visit_duration);"
    )
    for n in range(200):
        database.execute("INSERT INTO urls VALUES (?, ?, 0)", (n, f"https://{n}.example/"))
        database.execute("INSERT INTO visits VALUES (?, ?, ?, 0)", (n, n, 13_400_000_000_000_000 + n))
    database.commit()
    database.close()
    whole = path.read_bytes()

    @given(damage=st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=30))
    @examples(20, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def every(damage: list[tuple[int, int]]) -> None:
        damaged = bytearray(whole)
        for place, byte in damage:
            damaged[place] = byte
        path.write_bytes(damaged)
        with contextlib.suppress(Mistake):
            home.collect(Browser(), "--file", str(path))

    every()


def test_an_archive_that_says_very_much_about_a_file_is_not_read_into_memory(tmp_path: Path) -> None:
    head = tarfile.TarInfo("head")
    head.type, head.size = tarfile.XHDTYPE, 2**26
    file = tmp_path / "export.tar.gz"
    with gzip.open(file, "wb", compresslevel=1) as archive:
        archive.write(head.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(2**6):
            archive.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(Mistake, match=r"export\.tar\.gz"):
        list(sources.members(file, lambda name: True))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**24


def test_a_database_cannot_compute_a_value_larger_than_any_it_would_hold(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "History"
    with contextlib.closing(sqlite3.connect(file)) as made:
        made.execute("CREATE TABLE urls (id INTEGER PRIMARY KEY, url TEXT AS ('http://a/' || hex(zeroblob(20000000))))")
        made.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, visit_time, visit_duration, url)")
        made.execute("INSERT INTO urls (id) VALUES (1)")
        made.execute("INSERT INTO visits VALUES (1, 13000000000000000, 1, 1)")
        made.commit()
    with pytest.raises(Mistake, match="History"):
        home.collect(Browser(), "--file", str(file))


def test_many_files_of_an_archive_together_unpack_to_no_more_than_one_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LEAST_UNPACKED", 2**22)
    file = tmp_path / "calendar.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(12):
            archive.writestr(f"{number}.ics", b"\n" * 2**20)
    unpacked = 0
    with contextlib.suppress(Mistake):
        for member in sources.members(file, lambda name: True):
            while piece := member.stream.read(2**16):
                unpacked += len(piece)
    assert 2**20 < unpacked <= 2**22


def test_an_archive_without_what_is_sought_says_what_that_is(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("private-name.html", "")
    with pytest.raises(Mistake, match=r"other\.zip: .*it looks for Records\.json") as told:
        home.collect(Location(), "--file", str(tmp_path / "other.zip"))
    assert "private-name" not in str(told.value)


def test_no_archive_unpacks_to_more_than_the_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_UNPACKED", 2**12)
    file = tmp_path / "calendar.zip"
    with zipfile.ZipFile(file, "w") as archive:  # not even packed
        archive.writestr("mine.ics", bytes(2**13))
    with pytest.raises(Mistake, match="far more"):
        [member.stream.read() for member in sources.members(file, lambda name: True)]


def test_a_way_of_packing_that_chooses_its_own_memory_is_refused(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("mine.ics", "BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    with pytest.raises(Mistake, match=r"mine\.ics: is packed in a way"):
        home.collect(Calendar(), "--file", str(tmp_path / "x.zip"))
    with tarfile.open(tmp_path / "x.tar", "w:xz") as tar:
        tar.addfile(tarfile.TarInfo("issues_000001.json"))
    with pytest.raises(Mistake, match=r"x\.tar: is a damaged"):
        home.collect(Github(), "--file", str(tmp_path / "x.tar"), "--user", "ana")


def test_what_is_counted_in_memory_has_an_end(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "MOST_DAYS", 5)
    monkeypatch.setattr(bank, "MOST_ENTRIES", 5)
    records = "".join(f'<Record type="{n}" startDate="2026-03-01T00:00:00" value="1"/>\n' for n in range(9))
    (tmp_path / "export.xml").write_text(f"<HealthData>{records}</HealthData>")
    with pytest.raises(Mistake, match=r"export\.xml, line 6: measures more kinds"):
        home.collect(Health(), "--file", str(tmp_path / "export.xml"))
    entries = "".join(f"2026-03-01,{n}.00,x\n" for n in range(9))
    (tmp_path / "x.csv").write_text(f"Booking Date,Amount (EUR),Type\n{entries}")
    with pytest.raises(Mistake, match=r"x\.csv, line 7: has more entries"):
        home.collect(Bank(), "--file", str(tmp_path / "x.csv"), "--layout", "n26")
    assert home.rows("bank", "entries") == home.rows("health", "daily") == []

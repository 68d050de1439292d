"""Published data are fetched from an address and kept only where their bytes are the published ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from thebes.apps import command
from thebes.experiments import datasets, fetching
from thebes.experiments.fetching import FILES, NotFetched, Place, Published, fetch, files_of, sets
from thebes.privacy.faults import Mistake

TEXT = b"a,b\n1,2\n"
PLACE = Place("somebody/data", "0" * 40, "CC BY 4.0")
PLAIN = Published(name="adult/adult.data.gz", place=PLACE, path="table.csv")


def zipped(name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, TEXT)
    return held.getvalue()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, bytes]]]:
    """(address, what lies at its paths); the files named here have TEXT as their published bytes."""
    files: dict[str, bytes] = {}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *arguments: Any) -> None: ...

    monkeypatch.setitem(datasets.UNPACKED, PLAIN.name, hashlib.sha256(TEXT).hexdigest())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", files
    server.shutdown()
    thread.join()
    server.server_close()


def at(one: Published) -> str:
    return one.address("")


def test_a_file_is_fetched_once_packed_and_then_read(served: Any, tmp_path: Path) -> None:
    source, files = served
    files[at(PLAIN)] = TEXT
    assert fetch(PLAIN, tmp_path, source=source)
    assert gzip.decompress((tmp_path / PLAIN.name).read_bytes()) == TEXT
    held = datasets.opened_in(tmp_path, PLAIN.name)
    assert held is not None
    files.clear()
    assert not fetch(PLAIN, tmp_path, source=source)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["adult.data.gz"]


def test_a_zip_is_unpacked_and_what_its_place_lacks_is_put_back(served: Any, tmp_path: Path) -> None:
    source, files = served
    packed = Published(name=PLAIN.name, place=PLACE, path="table.zip", member="table.csv")
    files[at(packed)] = zipped("table.csv")
    assert fetch(packed, tmp_path / "zip", source=source)
    lacking = Published(name=PLAIN.name, place=PLACE, path="short.csv", first=b"a,b\n", last=b"\n")
    files[at(lacking)] = b"1,2"
    assert fetch(lacking, tmp_path / "short", source=source)
    assert (tmp_path / "zip" / PLAIN.name).read_bytes() == (tmp_path / "short" / PLAIN.name).read_bytes()


@pytest.mark.parametrize(
    ("path", "content", "why"),
    [
        ("table.csv", TEXT + b"3,4\n", "SHA-256 differs"),
        ("gone.csv", None, "status 404"),
        ("table.zip", b"no zip", "cannot be unpacked"),
        ("table.zip", zipped("other.csv"), "cannot be unpacked"),
        ("large.csv", b"x" * 4096, "too large"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_written(
    path: str, content: bytes | None, why: str, served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, files = served
    monkeypatch.setattr(fetching, "MOST_BYTES", 2048)
    one = Published(name=PLAIN.name, place=PLACE, path=path, member="table.csv" if path.endswith("zip") else "")
    if content is not None:
        files[at(one)] = content
    with pytest.raises(NotFetched, match=why):
        fetch(one, tmp_path, source=source)
    assert list(tmp_path.rglob("*")) == []


def test_a_place_that_cannot_be_reached_is_named_without_its_address(tmp_path: Path) -> None:
    with pytest.raises(NotFetched, match="is there a network") as refused:
        fetch(PLAIN, tmp_path, source="http://127.0.0.1:9")
    assert refused.value.name == PLAIN.name


def test_a_file_with_other_bytes_is_not_overwritten(served: Any, tmp_path: Path) -> None:
    path = tmp_path / PLAIN.name
    path.parent.mkdir()
    for content in (b"mine", gzip.compress(b"mine")):
        path.write_bytes(content)
        with pytest.raises(Mistake, match="holds another"):
            fetch(PLAIN, tmp_path, source=served[0])
        assert path.read_bytes() == content


def test_every_file_has_a_commit_a_checksum_and_a_licence() -> None:
    assert {one.name for one in FILES} == set(datasets.UNPACKED)
    for one in FILES:
        assert len(one.place.commit) == 40
        assert one.place.licence
        assert one.address().startswith("https://raw.githubusercontent.com/")
    assert [one.name for one in files_of(["bank"])] == ["bank/bank-full.csv.gz"]
    assert len(files_of([])) == len(FILES)
    with pytest.raises(Mistake, match="there are: adult"):
        files_of(["mnist"])


def test_the_checksums_are_those_of_the_data_that_are_here() -> None:
    held = [datasets.data_folder() / one.name for one in FILES]
    if not all(path.is_file() for path in held):
        pytest.skip("the data are not here")
    for one, path in zip(FILES, held, strict=True):
        assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == datasets.UNPACKED[one.name]


def test_the_command_says_what_it_fetched(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, files = served
    files[at(PLAIN)] = TEXT
    monkeypatch.setattr(fetching, "FILES", (PLAIN,))
    monkeypatch.setattr(fetching.fetch, "__kwdefaults__", {"source": source})

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["thebes", "experiment", "fetch", *arguments, "--data", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            command.main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    status, out, _ = run()
    assert (status, "fetched. Licence: CC BY 4.0" in out) == (0, True)
    status, out, _ = run("adult", "--json")
    assert json.loads(out) == [{"file": PLAIN.name, "fetched": False, "licence": "CC BY 4.0"}]
    (tmp_path / PLAIN.name).unlink()
    files.clear()
    status, _, err = run("adult")
    assert (status, "adult/adult.data.gz was not fetched" in err) == (1, True)
    assert sets() == ("adult",)

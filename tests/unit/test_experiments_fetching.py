"""Published data are fetched from an address and kept only where their bytes are the published ones."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from papers import checksums, command, converting, datasets, places
from papers.fetching import NotFetched, fetch
from papers.places import FILES, Place, Published, files_of, large, sets
from thebes.privacy.faults import Mistake

TEXT = b"a,b\n1,2\n"
NAME = "adult/adult.data.gz"


def zipped(name: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, TEXT)
    return held.getvalue()


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of that name has TEXT as what it holds."""
    monkeypatch.setitem(checksums.HELD, NAME, hashlib.sha256(TEXT).hexdigest())


@pytest.fixture
def served() -> Iterator[tuple[str, dict[str, bytes]]]:
    """(address, what lies at its paths)."""
    files: dict[str, bytes] = {}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path)
            self.send_response(302 if found and found.startswith(b"/") else 404 if found is None else 200)
            if found and found.startswith(b"/"):
                self.send_header("Location", found.decode())
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *arguments: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", files
    server.shutdown()
    thread.join()
    server.server_close()


def at(*addresses: str, path: str = "table.csv", **more: Any) -> Published:
    return Published(name=NAME, place=Place(addresses, "CC BY 4.0"), paths=(path,), **more)


def everything(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_a_file_is_fetched_once_packed_and_then_read(served: Any, tmp_path: Path) -> None:
    source, files = served
    files["/table.csv"] = TEXT
    assert fetch(at(source), tmp_path)
    assert gzip.decompress((tmp_path / NAME).read_bytes()) == TEXT
    assert datasets.opened_in(tmp_path, NAME) is not None
    files.clear()
    assert not fetch(at(source), tmp_path)
    assert everything(tmp_path) == ["adult.data.gz"]


def test_a_zip_is_unpacked_and_what_its_place_lacks_is_put_back(served: Any, tmp_path: Path) -> None:
    source, files = served
    files |= {"/table.zip": zipped("table.csv"), "/short.csv": b"1,2"}
    assert fetch(at(source, path="table.zip", made=converting.member("table.csv")), tmp_path / "zip")
    assert fetch(at(source, path="short.csv", made=converting.mended(b"a,b\n", b"\n")), tmp_path / "short")
    assert (tmp_path / "zip" / NAME).read_bytes() == (tmp_path / "short" / NAME).read_bytes()


def test_a_packed_file_stays_as_its_place_has_it_and_may_lie_elsewhere(served: Any, tmp_path: Path) -> None:
    source, files = served
    files |= {"/moved.gz": b"/new.gz", "/new.gz": gzip.compress(TEXT, 1, mtime=7)}
    assert fetch(at(source, path="moved.gz", made=converting.as_it_is), tmp_path)
    assert (tmp_path / NAME).read_bytes() == files["/new.gz"]


def test_a_second_place_helps_where_the_first_lacks_the_file_or_has_another(served: Any, tmp_path: Path) -> None:
    source, files = served
    files |= {"/b/table.csv": TEXT, "/other/table.csv": b"<html>"}
    for first in ("none", "other"):
        assert fetch(at(f"{source}/{first}", f"{source}/b"), tmp_path / first)
    with pytest.raises(NotFetched, match="SHA-256 differs"):
        fetch(at(f"{source}/none", f"{source}/other"), tmp_path / "neither")


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
    path: str, content: bytes | None, why: str, served: Any, tmp_path: Path
) -> None:
    source, files = served
    if content is not None:
        files[f"/{path}"] = content
    made = converting.member("table.csv") if path.endswith("zip") else converting.packed
    with pytest.raises(NotFetched, match=why):
        fetch(at(source, path=path, made=made, most_bytes=2048), tmp_path)
    assert everything(tmp_path) == []


def test_a_zip_that_unpacks_to_too_much_is_refused(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, files = served
    files["/table.zip"] = zipped("table.csv")
    monkeypatch.setattr(converting, "MOST_BYTES", len(TEXT) - 1)
    with pytest.raises(NotFetched, match="cannot be unpacked"):
        fetch(at(source, path="table.zip", made=converting.member("table.csv")), tmp_path)


def test_a_place_that_cannot_be_reached_is_named_without_its_address(tmp_path: Path) -> None:
    with pytest.raises(NotFetched, match="is there a network") as refused:
        fetch(at("http://127.0.0.1:9"), tmp_path)
    assert refused.value.name == NAME


def test_a_file_with_other_bytes_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.parent.mkdir()
    for content in (b"mine", gzip.compress(b"mine")):
        path.write_bytes(content)
        with pytest.raises(Mistake, match="holds another"):
            fetch(at("http://127.0.0.1:9"), tmp_path)
        assert path.read_bytes() == content


def test_files_that_somebody_has_already_are_taken_from_a_folder(tmp_path: Path) -> None:
    """A file named as a browser names it, or the finished one, will do; nothing is asked of a place."""
    for name, content in (("table.csv", TEXT), ("repository-table.csv", TEXT), ("adult.data.gz", gzip.compress(TEXT))):
        lying = tmp_path / "lying" / name
        lying.mkdir(parents=True)
        (lying / name).write_bytes(content)
        assert fetch(at(by_hand="Ask for it"), tmp_path / name, lying=lying)
        assert datasets.opened_in(tmp_path / name, NAME) is not None


def test_a_folder_without_the_file_or_with_another_is_refused(tmp_path: Path) -> None:
    lying = tmp_path / "lying"
    with pytest.raises(Mistake, match="no folder"):
        fetch(at("http://127.0.0.1:9"), tmp_path / "data", lying=lying)
    lying.mkdir()
    with pytest.raises(NotFetched, match=r"holds no table\.csv"):
        fetch(at("http://127.0.0.1:9"), tmp_path / "data", lying=lying)
    (lying / "table.csv").write_bytes(b"other")
    with pytest.raises(NotFetched, match="SHA-256 differs"):
        fetch(at("http://127.0.0.1:9"), tmp_path / "data", lying=lying)
    with pytest.raises(NotFetched, match="too large"):
        fetch(at("http://127.0.0.1:9", most_bytes=4), tmp_path / "data", lying=lying)
    assert everything(tmp_path / "data") == []


def test_what_asks_for_an_agreement_is_never_fetched_from_a_place(served: Any, tmp_path: Path) -> None:
    source, files = served
    files["/table.csv"] = TEXT
    with pytest.raises(NotFetched, match="Agree first"):
        fetch(at(source, by_hand="Agree first"), tmp_path)


def test_every_file_has_a_checksum_a_licence_and_a_place_of_its_own() -> None:
    assert {one.name for one in FILES} == {*checksums.HELD, *(one.name for one in FILES if one.large)}
    assert len({one.name for one in FILES}) == len(FILES)
    for one in FILES:
        assert one.place.licence
        assert bool(one.place.at) != bool(one.by_hand)
        assert all(address.startswith("https://") for address in one.place.at)
        if "github" in "".join(one.place.at):
            (address,) = one.place.at
            assert re.search(r"[0-9a-f]{40}", f"{address}/{one.paths[0]}")  # one commit, not a branch that moves
    assert [one.name for one in files_of(["bank"])] == ["bank/bank-full.csv.gz"]
    assert not any(one.large for one in files_of([]))
    assert {one.set for one in files_of([])} | {*large()} == {*sets()}
    assert [one.name for one in files_of(["vgg16"])] == ["vgg16/vgg16-397923af.pth"]
    with pytest.raises(Mistake, match="there are: adult"):
        files_of(["imagenet"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one.name, marks=[pytest.mark.slow] if one.set in ("cifar10", "github_pullreqs", "criteo") else [])
        for one in FILES
        if one.name in checksums.HELD and one.name != NAME
    ],
)
def test_the_checksum_of_what_a_file_holds_is_that_of_the_data_that_are_here(name: str) -> None:
    path = datasets.data_folder() / name
    if not path.is_file():
        pytest.skip("the data are not here")
    content = path.read_bytes()
    assert checksums.held(name, content) == checksums.HELD[name]
    assert checksums.is_published(name, content)


def test_the_command_says_what_it_fetched_and_what_it_may_not(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, files = served
    files["/table.csv"] = TEXT
    criteo = next(one for one in FILES if one.set == "criteo")
    monkeypatch.setattr(places, "FILES", (at(source), criteo, *(one for one in FILES if one.large)))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            command.main(["fetch", *arguments, "--data", str(tmp_path)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    status, out, _ = run()
    assert (status, "fetched. Licence: CC BY 4.0" in out) == (0, True)
    assert "is not fetched. Criteo gives its advertisements to those who agree" in out
    assert "by name only: cifar10_lossless, squeezenet1_1, vgg16" in out
    status, out, _ = run("adult", "--json")
    assert json.loads(out) == [{"file": NAME, "fetched": False, "licence": "CC BY 4.0"}]
    status, out, _ = run("--json")
    assert [one["file"] for one in json.loads(out) if "by_hand" in one] == [criteo.name]
    status, _, err = run("criteo")
    assert (status, "ailab.criteo.com" in err) == (1, True)
    (tmp_path / NAME).unlink()
    files.clear()
    status, _, err = run("adult")
    assert (status, "adult/adult.data.gz was not fetched" in err) == (1, True)
    (tmp_path / "table.csv").write_bytes(TEXT)
    status, out, _ = run("adult", "--from", str(tmp_path))
    assert (status, "fetched. Licence" in out) == (0, True)
    assert sets() == ("adult", "criteo", *large())

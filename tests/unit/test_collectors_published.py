"""Publications: nothing of a package runs before its signature was verified, and a publisher stays the same."""

from __future__ import annotations

import json
import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from thebes.collectors import registry
from thebes.collectors.declaration import declaration
from thebes.collectors.installation import Installed
from thebes.collectors.publication import FILE, Unverified, make_key, read_key, read_publication, sign, verify
from thebes.collectors.registry import load, loaded, offer, offers
from thebes.privacy.faults import Mistake

PROGRAM = """
from pathlib import Path
from thebes.collector import Collector, Session, table

(Path(__file__).parent.parent / "ran").touch()

class Steps(Collector):
    name = "steps"
    version = 1
    description = "Counts steps."
    reads = "Nothing at all."
    tables = (table("walks", "One a day", steps=("integer", "counted")),)

    def collect(self, session: Session) -> None:
        session.insert("walks", {"steps": 1})
"""


class Package:
    """A third party's package, installed on this Python's path."""

    def __init__(self, place: Path, *, name: str = "acme_steps", offered: str = "steps") -> None:
        self.place, self.name, self.entry = place, name, f"{name}.collector:Steps"
        self.folder = place / name
        self.folder.mkdir(parents=True)
        (self.folder / "__init__.py").write_text("")
        (self.folder / "collector.py").write_text(PROGRAM)
        self.offer(offered)

    def offer(self, name: str, entry: str | None = None) -> None:
        info = self.place / f"{self.name}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {self.name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[thebes.collectors]\n{name} = {entry or self.entry}\n")

    def sign(self, key: Ed25519PrivateKey, **more: Any) -> None:
        made = loaded(self.entry)
        self.forget()
        facts = {"name": made.name, "version": made.version, "entry": self.entry, "description": made.description}
        sign(self.folder, key, declared=declaration(made, made.tables), **{**facts, **more})
        (self.place / "ran").unlink(missing_ok=True)

    @property
    def ran(self) -> bool:
        return (self.place / "ran").exists()

    def forget(self) -> None:
        for module in [name for name in sys.modules if name.partition(".")[0] == self.name]:
            del sys.modules[module]


def compiled_copy(package: Package, module: str) -> Path:
    """Return where Python would look for it."""
    folder = package.folder / "__pycache__"
    folder.mkdir(exist_ok=True)
    return folder / f"{module}.{sys.implementation.cache_tag}.pyc"


@pytest.fixture(autouse=True)
def afterwards_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that loaded somebody's package compiles everything anew; this one goes on with other tests."""
    monkeypatch.setattr(sys, "pycache_prefix", sys.pycache_prefix)
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)


@pytest.fixture
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    made = Package(tmp_path / "site")
    monkeypatch.syspath_prepend(str(made.place))
    yield made
    made.forget()


def test_a_signed_package_is_found_verified_and_loaded(package: Package, key: Ed25519PrivateKey) -> None:
    package.sign(key)
    found = {each.name: each for each in offers()}["steps"]
    assert found.package == "acme_steps"
    assert not package.ran  # listing runs nothing
    made, told = load(found)
    assert told is not None
    assert told.key == key.public_key().public_bytes_raw().hex()
    assert made.name == "steps"
    assert package.ran


def test_an_unsigned_package_is_refused_and_does_not_run(package: Package) -> None:
    with pytest.raises(Unverified, match="not signed"):
        load(offer("steps"))
    assert not package.ran


def altered(package: Package) -> None:
    with (package.folder / "collector.py").open("a") as file:
        file.write("# one more line\n")


def added(package: Package) -> None:
    (package.folder / "more.py").write_text("")


def missing(package: Package) -> None:
    (package.folder / "__init__.py").unlink()
    (package.folder / "__init__.py").touch()
    (package.folder / "notes.txt").unlink()


def linked(package: Package) -> None:
    (package.folder / "notes.txt").unlink()
    (package.folder / "notes.txt").symlink_to("/etc/hostname")


def folder_linked(package: Package) -> None:
    (package.folder / "more").symlink_to("/etc")


def body(package: Package) -> None:
    path = package.folder / FILE
    signed = json.loads(path.read_text())
    signed["publication"]["description"] = "Does good."
    path.write_text(json.dumps(signed))


def another_signature(package: Package) -> None:
    path = package.folder / FILE
    signed = json.loads(path.read_text())
    signed["key"] = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    path.write_text(json.dumps(signed))


def no_json(package: Package) -> None:
    (package.folder / FILE).write_text("[" * 100_000)


def other_offer(package: Package) -> None:
    package.offer("walks")


def other_entry(package: Package) -> None:
    package.offer("steps", "acme_steps.other:Steps")


@pytest.mark.parametrize(
    "harm",
    [altered, added, missing, linked, folder_linked, body, another_signature, no_json, other_offer, other_entry],
)
def test_whatever_was_changed_after_signing_is_refused_before_it_runs(
    package: Package, key: Ed25519PrivateKey, harm: Any
) -> None:
    (package.folder / "notes.txt").write_text("notes")
    package.sign(key)
    harm(package)
    with pytest.raises(Unverified):
        load(next(each for each in offers() if each.package == "acme_steps"))
    assert not package.ran


def test_a_compiled_copy_beside_the_sources_is_never_used(package: Package, key: Ed25519PrivateKey) -> None:
    package.sign(key)
    source = package.folder / "collector.py"
    facts = source.stat()
    evil = PROGRAM.replace('"Counts steps."', '"Counts harms."').encode()
    assert len(evil) == facts.st_size
    whole = source.read_bytes()
    source.write_bytes(evil)
    py_compile.compile(str(source), cfile=str(compiled_copy(package, "collector")), doraise=True)
    source.write_bytes(whole)
    os.utime(source, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    compiled = next((package.folder / "__pycache__").glob("collector*.pyc"))
    content = bytearray(compiled.read_bytes())
    content[8:12] = int(facts.st_mtime).to_bytes(4, "little")  # as fresh as the source
    compiled.write_bytes(content)
    made, _ = load(offer("steps"))
    assert made.description == "Counts steps."


def test_a_compiled_copy_is_not_used_either_for_what_is_imported_while_it_runs(
    package: Package, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    program = (package.folder / "collector.py").read_text()
    (package.folder / "collector.py").write_text(
        f"{program}        from acme_steps.late import SAID as said\n        self.said = said\n"
    )
    (package.folder / "late.py").write_text("SAID = 'signed'\n")
    package.sign(key)
    other = tmp_path / "other.py"
    other.write_text("SAID = 'never signed'\n")
    # one that Python takes without asking whether it belongs to the source
    never_checked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), cfile=str(compiled_copy(package, "late")), invalidation_mode=never_checked)
    made: Any = load(offer("steps"))[0]

    class Nowhere:
        def insert(self, table: str, row: Any) -> None: ...

    made.collect(Nowhere())
    assert made.said == "signed"


def test_a_program_that_is_not_what_was_published_is_refused(package: Package, key: Ed25519PrivateKey) -> None:
    package.sign(key, version=2)
    with pytest.raises(Unverified, match="version and tables"):
        load(offer("steps"))


def test_a_package_cannot_take_the_name_of_a_shipped_collector(package: Package) -> None:
    package.offer("browser")
    assert offer("browser").package is None


def test_a_package_that_points_into_thebes_is_not_taken_for_a_part_of_it(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program would otherwise run unsigned."""
    imported: list[str] = []
    monkeypatch.setattr(registry, "loaded", imported.append)
    for entry in ("thebes.collectors.shipped.browser:Browser", "thebes.collectors.shipped.acme:Steps"):
        package.offer("steps", entry)
        assert offer("steps").package == "acme_steps"
        with pytest.raises(Unverified, match="not signed"):
            load(offer("steps"))
    assert imported == []


def test_two_packages_of_one_name_are_not_chosen_between(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Package(tmp_path / "other", name="evil_steps").place))
    with pytest.raises(Mistake, match="uninstall one"):
        offers()


def test_a_single_module_is_not_a_package(tmp_path: Path, package: Package) -> None:
    (package.place / "lonely.py").write_text(PROGRAM)
    package.offer("steps", "lonely:Steps")
    with pytest.raises(Unverified, match="ordinary package"):
        load(offer("steps"))


def test_a_publisher_is_pinned_at_first_sight_and_a_change_is_refused(
    package: Package, key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").touch()
    place = Installed(home)
    package.sign(key)
    place.trust(verify(package.folder))
    place.trust(verify(package.folder))
    assert place.pinned("steps") == key.public_key().public_bytes_raw().hex()
    package.sign(Ed25519PrivateKey.generate())
    with pytest.raises(Unverified, match="--forget-publisher"):
        place.trust(verify(package.folder))
    place.forget("steps")
    with pytest.raises(Unverified):
        place.trust(verify(package.folder))
    place.distrust("steps")
    place.trust(verify(package.folder))
    (home / "collectors" / ".publishers.json").write_text("damaged")
    with pytest.raises(Unverified, match="cannot be read"):
        place.trust(verify(package.folder))


def test_a_publisher_s_key_is_kept_from_others_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    make_key(path)
    assert path.stat().st_mode & 0o077 == 0
    assert isinstance(read_key(path), Ed25519PrivateKey)
    with pytest.raises(Mistake, match="exists already"):
        make_key(path)
    path.chmod(0o644)
    with pytest.raises(Mistake, match="chmod 600"):
        read_key(path)
    (tmp_path / "other.pem").write_text("no key")
    (tmp_path / "other.pem").chmod(0o600)
    for name in ("other.pem", "missing.pem"):
        with pytest.raises(Mistake):
            read_key(tmp_path / name)


def test_what_was_signed_by_its_publisher_and_makes_no_sense_is_refused(
    package: Package, key: Ed25519PrivateKey
) -> None:
    package.sign(key, version="one")
    with pytest.raises(Unverified, match="make sense"):
        read_publication(package.folder / FILE)


def test_a_program_that_cannot_be_loaded_is_said_so(package: Package) -> None:
    for entry in ("acme_steps.nowhere:Steps", "acme_steps.collector:Nothing", "acme_steps.collector:Path"):
        with pytest.raises(Mistake):
            loaded(entry)
    assert registry.GROUP == "thebes.collectors"

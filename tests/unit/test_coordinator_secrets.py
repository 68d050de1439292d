"""The things that a coordinator keeps outside its database: keys, tokens, users; and how contributions look at rest."""

from __future__ import annotations

import hmac
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import jwt
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support.coordinator import HandClock
from tests.support.examples import examples
from thebes.cli import user as users
from thebes.coordinator import settings as settings_file
from thebes.coordinator.auth.accounts import ADMIN, LIFE, Accounts, Role
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.contribution_record import pack, unpack
from thebes.coordinator.process.server import serve
from thebes.coordinator.storage.database import Database
from thebes.coordinator.tasks.task_keys import Keys, TaskKey, place_of
from thebes.privacy.faults import Fault, Mistake
from thebes.tasks.contributions import Contributions, Slot, read_payloads
from thebes.wire.refusals import Conflict, NotFound, NotSignedIn

ID = "0123456789abcdef" * 2
PASSWORD = "a long password"


# --- keys -----------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path)


def test_a_key_is_a_file_of_its_own_that_only_its_owner_reads(keys: Keys, tmp_path: Path) -> None:
    keys.make(ID)
    assert stat.S_IMODE((tmp_path / ID).stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        keys.make(ID)


def test_what_is_sealed_opens_at_its_place_only(keys: Keys) -> None:
    sealed = keys.make(ID).seal(b"forty", place_of(ID, "phase-0", "p"))
    key = keys.of(ID)
    assert key is not None
    assert key.open(sealed, place_of(ID, "phase-0", "p")) == b"forty"
    for place in (place_of(ID, "phase-1", "p"), place_of(ID, "phase-0", "q"), place_of("f" * 32, "phase-0", "p")):
        with pytest.raises(Fault):
            key.open(sealed, place)
    with pytest.raises(Fault):
        key.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), place_of(ID, "phase-0", "p"))


def test_the_same_seals_differently_each_time_and_has_the_same_fingerprint(keys: Keys) -> None:
    key = keys.make(ID)
    assert key.seal(b"forty", "p") != key.seal(b"forty", "p")
    assert key.fingerprint(b"forty") == key.fingerprint(b"forty") != key.fingerprint(b"forty-one")
    assert TaskKey(bytes(31) + b"x").fingerprint(b"forty") != key.fingerprint(b"forty")


@pytest.mark.parametrize("length", [0, 5, 64, 5000])
def test_a_body_has_the_fingerprint_that_it_was_stored_under(length: int) -> None:
    """HMAC-SHA-256 under a key of its own: a database of any version knows a repeat again."""
    secret, body = bytes(range(32)), b"x" * length
    own = hmac.digest(secret, b"thebes fingerprint 1", "sha256")
    key = TaskKey(secret)
    assert [key.fingerprint(body) for _ in range(2)] == 2 * [hmac.digest(own, body, "sha256")]


def test_a_destroyed_key_is_overwritten_and_gone(keys: Keys, tmp_path: Path) -> None:
    keys.make(ID)
    other = tmp_path / "other name of the same file"
    os.link(tmp_path / ID, other)
    keys.destroy(ID)
    keys.destroy(ID)
    assert other.read_bytes() == bytes(32)
    assert keys.of(ID) is None


@pytest.mark.parametrize("left", [bytes(32), b"", b"half"])
def test_a_key_that_was_being_destroyed_or_made_counts_as_gone(keys: Keys, tmp_path: Path, left: bytes) -> None:
    (tmp_path / ID).write_bytes(left)
    assert keys.of(ID) is None


def test_a_name_that_is_no_task_touches_no_file(keys: Keys) -> None:
    for name in ("../secret", "", "x" * 32):
        with pytest.raises(Fault):
            keys.of(name)


# --- records --------------------------------------------------------------------------------------------

_SLOTS = st.one_of(
    st.builds(lambda n: (Slot("number", length=n), st.floats(-1e300, 1e300)), st.integers(0, 3)),
    st.builds(lambda n: (Slot("integer", -9, 9, length=n), st.integers(-9, 9)), st.integers(0, 3)),
    st.just((Slot("number", nullable=True), st.none() | st.floats(-1e3, 1e3))),
    st.just((Slot("integer", 0, 9, nullable=True), st.none() | st.integers(0, 9))),
    st.just((Slot("text", length=8), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8))),
)


@given(st.dictionaries(st.text("abcxyz", min_size=1, max_size=3), _SLOTS, max_size=4), st.integers(1, 5), st.data())
@examples(25)
def test_a_record_gives_back_exactly_what_was_examined(slots: dict, count: int, data: st.DataObject) -> None:
    layout = {name: slot for name, (slot, _) in slots.items()}

    def value(slot: Slot, one: st.SearchStrategy) -> object:
        many = slot.length and slot.kind != "text"
        return data.draw(st.lists(one, min_size=slot.length, max_size=slot.length) if many else one)

    payloads = [{name: value(slot, one) for name, (slot, one) in slots.items()} for _ in range(count)]
    examined = read_payloads(layout, "p", payloads)
    back = unpack(layout, "p", pack(layout, examined))
    assert (back.part, back.count) == ("p", count)
    for name in layout:
        np.testing.assert_array_equal(back.fields[name], examined.fields[name])


def test_packed_numbers_are_kept_as_they_travelled_and_added_up_exactly() -> None:
    layout = {"w": Slot("number", length=2, packed=True)}
    numbers = np.array([[0.1, -3.5]], dtype=np.float32).astype(np.float64)
    records = pack(layout, Contributions("p", 1, {"w": numbers}))
    assert len(records[0]) == 8
    back = unpack(layout, "p", records).fields["w"]
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, numbers)


def test_a_record_of_another_form_is_a_fault() -> None:
    with pytest.raises(Fault):
        unpack({"w": Slot("number")}, "p", [b"short"])


# --- the home -------------------------------------------------------------------------------------------


def test_a_home_is_for_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    home = CoordinatorHome(tmp_path / "home")
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    for name in ("admin.token", "log.key", "session.key"):
        assert stat.S_IMODE((home.folder / name).stat().st_mode) == 0o600
    again = CoordinatorHome(tmp_path / "home")
    assert (again.admin_token, again.log_key) == (home.admin_token, home.log_key)
    assert len(home.admin_token) >= 43


def test_many_processes_that_start_at_once_agree_on_every_secret(tmp_path: Path) -> None:
    homes: list[CoordinatorHome] = []
    threads = [threading.Thread(target=lambda: homes.append(CoordinatorHome(tmp_path / "home"))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(h.admin_token, h.log_key, h.session_key) for h in homes}) == 1
    assert len(homes) == 12
    assert not [f for f in (tmp_path / "home").iterdir() if f.name.startswith(".")]


def test_a_token_that_others_could_read_is_not_used(tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path / "home")
    for name in ("admin.token", "log.key"):
        (home.folder / name).chmod(0o644)
        with pytest.raises(Mistake, match=f"run chmod 600 on it; if somebody may have read it: thebes rotate {name}"):
            CoordinatorHome(tmp_path / "home")
        (home.folder / name).chmod(0o600)
    CoordinatorHome(tmp_path / "home")


@pytest.mark.parametrize("known", ["coordinator.db", "database.name", "log.keys.json"])
def test_no_other_key_is_made_for_a_list_that_was_signed(known: str, tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path / "home")
    (home.folder / known).write_bytes(b"[]")
    (home.folder / "log.key").unlink()
    with pytest.raises(Mistake, match=r"has no log\.key any more.* bring it back from a copy"):
        CoordinatorHome(tmp_path / "home")
    assert not (home.folder / "log.key").exists()
    (home.folder / known).unlink()
    CoordinatorHome(tmp_path / "home")


def test_a_home_belongs_to_one_role(tmp_path: Path) -> None:
    from thebes.person.home import Person
    from thebes.site.home import SiteHome
    from thebes.wire.access import make_token

    CoordinatorHome(tmp_path / "server")
    before = sorted(f.name for f in (tmp_path / "server").iterdir())
    with pytest.raises(Mistake, match="coordinator's home"):
        Person(tmp_path / "server")
    assert sorted(f.name for f in (tmp_path / "server").iterdir()) == before
    Person(tmp_path / "ana").close()
    north = tmp_path / "north"
    SiteHome(north)
    make_token(north)  # as `thebes site` does when it begins
    for home in (tmp_path / "ana", north):
        with pytest.raises(Mistake, match="home of a person or a site"):
            CoordinatorHome(home)
        assert not (home / "admin.token").exists()
    with pytest.raises(Mistake, match="person's home"):
        SiteHome(tmp_path / "ana")


def test_a_home_that_cannot_be_changed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CoordinatorHome(tmp_path / "home")

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(Mistake, match=r"^--home: .*Read-only file system"):
        CoordinatorHome(tmp_path / "home")


@pytest.mark.parametrize("text", ["min_count_floor = 0", "min_count_floor = '3'", "unknown = 1", "= 1"])
def test_a_setting_that_cannot_work_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / settings_file.FILE).write_text(text)
    with pytest.raises(Mistake) as caught:
        settings_file.read(tmp_path)
    assert settings_file.FILE in caught.value.argument


# --- accounts -------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def session_key() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes_raw()


@pytest.fixture
def accounts(tmp_path: Path, clock: HandClock, session_key: bytes) -> Iterator[Accounts]:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    yield Accounts(database, admin_token=lambda: "the-admin-token", session_key=lambda: session_key, clock=clock)
    database.close()


def test_a_token_counts_for_a_quarter_of_an_hour(accounts: Accounts, clock: HandClock) -> None:
    accounts.add("ana", PASSWORD, Role.REQUESTOR)
    token, end = accounts.login("ana", PASSWORD)
    assert end - clock.now() == LIFE
    assert (accounts.who(token).name, accounts.who(token).role) == ("ana", Role.REQUESTOR)
    clock.move(minutes=15)
    with pytest.raises(NotSignedIn):
        accounts.who(token)


def test_a_disabled_user_is_out_at_once_and_a_grant_lets_in_again(accounts: Accounts) -> None:
    accounts.add("ana", PASSWORD, Role.REQUESTOR)
    token, _ = accounts.login("ana", PASSWORD)
    accounts.disable("ana")
    with pytest.raises(NotSignedIn):
        accounts.who(token)
    with pytest.raises(NotSignedIn):
        accounts.login("ana", PASSWORD)
    accounts.grant("ana", Role.AUDITOR)
    with pytest.raises(NotSignedIn, match="the session was ended"):
        accounts.who(token)
    again, _ = accounts.login("ana", PASSWORD)
    assert accounts.who(again).role is Role.AUDITOR


def test_the_operators_token_is_an_operator(accounts: Accounts) -> None:
    assert accounts.who("the-admin-token") == ADMIN
    for wrong in ("", "the-admin-toke", "the-admin-token ", "é"):
        with pytest.raises(NotSignedIn):
            accounts.who(wrong)


def test_forged_tokens_are_refused(accounts: Accounts, clock: HandClock, session_key: bytes) -> None:
    accounts.add("ana", PASSWORD, Role.OPERATOR)
    ours = Ed25519PrivateKey.from_private_bytes(session_key)
    good = jwt.decode(accounts.login("ana", PASSWORD)[0], options={"verify_signature": False})

    def forged(key: object = ours, algorithm: str = "EdDSA", **changes: object) -> str:
        claims = {name: value for name, value in {**good, **changes}.items() if value is not None}
        return jwt.encode(claims, key, algorithm=algorithm)  # type: ignore[arg-type]

    assert accounts.who(forged()).name == "ana"
    public = ours.public_key().public_bytes_raw()
    attempts = [
        forged(None, "none"),
        forged(public, "HS256"),
        forged(Ed25519PrivateKey.generate()),
        forged(sub="nobody"),
        forged(exp=good["iat"] + 3600),
        forged(iat=good["iat"] + 60, exp=good["iat"] + 600),
        forged(exp=float("inf")),
        *(forged(**{name: None}) for name in ("exp", "iat", "iss", "aud", "sub", "jti")),
        *(forged(**{name: "another"}) for name in ("iss", "aud")),
    ]
    for attempt in attempts:
        with pytest.raises(NotSignedIn):
            accounts.who(attempt)


def test_passwords_are_kept_as_argon2id_with_the_chosen_cost(accounts: Accounts) -> None:
    accounts.add("ana", PASSWORD, Role.REQUESTOR)
    found = accounts._found("ana")
    assert found is not None
    assert found[0].startswith("$argon2id$v=19$m=65536,t=3,p=4$")


@pytest.mark.slow
def test_an_unknown_name_takes_as_long_as_a_wrong_password(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts.add("ana", PASSWORD, Role.REQUESTOR)
    accounts.add("off", PASSWORD, Role.REQUESTOR)
    accounts.disable("off")
    checked: list[str] = []

    class Counting:
        def verify(self, hashed: str, password: str) -> bool:
            checked.append(hashed)
            return accounts_hasher.verify(hashed, password)

        def __getattr__(self, name: str) -> object:
            return getattr(accounts_hasher, name)

    accounts_hasher = accounts._hasher
    monkeypatch.setattr(accounts, "_hasher", Counting())
    for name, password in (("ana", "wrong"), ("nobody", PASSWORD), ("off", PASSWORD), ("a\0b", "x"), ("é", "x")):
        with pytest.raises(NotSignedIn):
            accounts.login(name, password)
    assert len(checked) == 5  # one costly check each
    assert all(hashed.startswith("$argon2id$v=19$m=65536") for hashed in checked)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "é", "x" * 65, "a\0", ADMIN.name])
def test_names_that_cannot_be_users_are_refused(accounts: Accounts, name: str) -> None:
    with pytest.raises(Mistake):
        accounts.add(name, PASSWORD, Role.REQUESTOR)


def test_short_passwords_and_taken_names_are_refused(accounts: Accounts) -> None:
    with pytest.raises(Mistake):
        accounts.add("ana", "short", Role.REQUESTOR)
    accounts.add("ana", PASSWORD, Role.REQUESTOR)
    with pytest.raises(Conflict):
        accounts.add("ana", PASSWORD, Role.REQUESTOR)
    with pytest.raises(NotFound):
        accounts.disable("nobody")


def test_users_are_managed_from_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "home"

    def user(*arguments: str, text: str = "") -> str | type:
        done = CliRunner().invoke(users.app, [*arguments, "--home", str(home)], input=text)
        return done.output if done.exception is None else type(done.exception)

    assert user("list") is Mistake  # there is no such home
    home.mkdir()
    assert user("add", "ana", "--role", "requestor", "--password-stdin", text=PASSWORD + "\n")
    assert user("add", "ben", "--role", "king", "--password-stdin", text=PASSWORD) is Mistake
    assert user("add", "ben", "--password-stdin", text="short") is Mistake
    assert user("grant", "ana", "--role", "operator") == "ana is now: operator.\n"
    assert user("disable", "ana") == "ana may not log in any more.\n"
    assert user("disable", "nobody") is NotFound
    assert user("list") == "ana  operator  disabled\n"


@pytest.mark.parametrize("command", [("list",), ("password", "ana", "--password-stdin"), ("disable", "ana")])
def test_a_folder_becomes_no_coordinators_home_by_being_asked_for_users(tmp_path: Path, command: list[str]) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "novel.txt").write_text("chapter one")
    done = CliRunner().invoke(users.app, [*command, "--home", str(tmp_path)], input=PASSWORD + "\n")
    assert isinstance(done.exception, Mistake)
    assert ([path.name for path in tmp_path.iterdir()], tmp_path.stat().st_mode & 0o777) == (["novel.txt"], 0o755)


@pytest.mark.parametrize("command", [("list",), ("add", "ana", "--password-stdin"), ("disable", "ana")])
def test_where_the_database_is_elsewhere_none_is_made_in_the_home(tmp_path: Path, command: list[str]) -> None:
    CoordinatorHome(tmp_path)
    done = CliRunner().invoke(users.app, [*command, "--home", str(tmp_path)], input=PASSWORD + "\n")
    assert isinstance(done.exception, Mistake)
    assert done.exception.argument == "--store"
    assert not (tmp_path / "coordinator.db").exists()


def test_a_coordinator_whose_database_is_elsewhere_does_not_begin_with_an_empty_one(tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path)
    assert home.store.endswith("coordinator.db")  # the first start
    home.keys.make("a" * 32)
    with pytest.raises(Mistake, match="--store"):
        serve(tmp_path, host="127.0.0.1", port=0)
    assert not (tmp_path / "coordinator.db").exists()
    assert home.keys.of("a" * 32) is not None  # on an empty database it would be taken for left over


def test_whom_a_user_may_ask_is_granted_and_taken_back_from_the_command_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    def user(*arguments: str, text: str = "") -> str | type:
        done = CliRunner().invoke(users.app, [*arguments, "--home", str(home)], input=text)
        return done.output if done.exception is None else type(done.exception)

    assert user("add", "ana", "--password-stdin", text=PASSWORD + "\n")
    assert user("disable", "ana")
    both = user("grant", "ana", "--site", "north", "--site", "south", "--kind", "query")
    assert both == "ana may ask only: north for query, south for query.\n"
    assert (
        user("grant", "ana", "--site", "north") == "ana may ask only: north for *, north for query, south for query.\n"
    )
    shown = "ana  requestor  disabled  asks only north for *, north for query, south for query\n"
    assert user("list") == shown  # what was said of sites lets nobody in again
    (told,) = json.loads(str(user("list", "--json", "-")))
    assert told["capabilities"][0] == {"site": "north", "kind": "*"}
    assert user("grant", "ana", "--site", "east, west", "--kind", "query,train").endswith(
        "south for query, west for query, west for train.\n"
    )
    assert user("grant", "ana", "--all") == "ana may ask every site; each site's own policy decides.\n"
    assert user("list") == "ana  requestor  disabled\n"
    assert user("grant", "ana") is Mistake
    assert user("grant", "ana", "--all", "--site", "north") is Mistake
    assert user("grant", "ana", "--site", "No Such\n") is Mistake
    assert user("grant", "ana", "--kind", "median") is Mistake
    assert user("grant", "nobody", "--site", "north") is NotFound
    assert user("grant", "nobody", "--all") is NotFound


def test_time_enters_by_one_door_only() -> None:
    """No other file of the coordinator reads a clock that a test could not move."""
    import thebes.coordinator as room

    for file in Path(room.__path__[0]).rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.name != "clock.py":
            assert "time.time(" not in text
            assert ".now(UTC)" not in text

"""A site joins by a one-time code: what is refused, who can stand in between, what is left when either side dies."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.support.coordinator import Front, HandClock
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.join_codes import MOST_STRANGERS, MOST_WRONG, JoinCodes
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.home import AUDIT, SiteHome
from thebes.site.link.joining import join, resume
from thebes.site.steward.audit_log import Audit
from thebes.testing.command import typed
from thebes.wire.client import CoordinatorClient
from thebes.wire.join_codes import JoinCode, answer_proof
from thebes.wire.refusals import Busy, Conflict, NotAllowed

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
SITE_FILES = ("ca.pem", "joined", "site.key", "site.pem")


class Door:
    """The way to a coordinator, on which everything that goes by is seen, and may be changed."""

    def __init__(self, client: CoordinatorClient) -> None:
        self._client = client
        self.sent: list[dict[str, str]] = []
        self.there: Callable[[dict[str, str]], dict[str, str]] = lambda sent: sent
        self.back: Callable[[dict[str, str]], dict[str, str]] = lambda answer: answer

    def join(self, **sent: str) -> dict[str, str]:
        self.sent.append(sent)
        return self.back(self._client.join(**self.there(sent)))


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator", clock=HandClock(datetime.now(UTC).replace(microsecond=0))) as made:
        yield made


@pytest.fixture
def door(front: Front) -> Iterator[Door]:
    with CoordinatorClient("http://testserver", transport=front.transport) as client:
        yield Door(client)


@pytest.fixture
def codes(front: Front) -> JoinCodes:
    return JoinCodes(authority_of(front), front.clock)


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return SiteHome(tmp_path / "site")


def authority_of(front: Front) -> CertificateAuthority:
    return CertificateAuthority(front.home.folder, front.clock)


def counting(front: Front, site: str = "north") -> int:
    known = authority_of(front).certificates().values()
    return sum(each.site == site and each.fault(front.clock.now()) is None for each in known)


def holds_together(front: Front, home: SiteHome) -> None:
    """All of a certificate that counts is in `link/`, of the key beside it."""
    assert sorted(path.name for path in home.link.iterdir()) == sorted(SITE_FILES)
    shown = (home.link / "site.pem").read_bytes()
    key = serialization.load_pem_private_key((home.link / "site.key").read_bytes(), None)
    assert x509.load_pem_x509_certificate(shown).public_key() == key.public_key()
    examined = authority_of(front).examine(shown)
    assert not isinstance(examined, tuple), examined
    assert examined.site == "north"
    assert (home.link / "ca.pem").read_bytes() == authority_of(front).believed()


def test_a_code_gives_a_site_a_certificate_of_a_key_that_never_leaves_it(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome
) -> None:
    code, until = codes.make("north", by="ana")
    found = join(home, JoinCode.read(str(code)), door)
    assert found.name == "north"
    holds_together(front, home)
    (sent,) = door.sent
    assert "PRIVATE" not in json.dumps(sent)
    assert str(code).rpartition(".")[2] not in json.dumps(sent)  # nor does the code itself
    assert code.secret.hex() not in json.dumps(sent)
    assert stat.S_IMODE((home.link / "site.key").stat().st_mode) == 0o600
    assert not (home.folder / "joining").exists()
    with closing(Audit(home.folder / AUDIT)) as audit:
        audit.verify()
        assert [entry.event for entry in audit.entries()] == ["joined"]
    (told,) = codes.all()
    assert (told.state(front.clock.now()), told.by, told.until) == ("used", "ana", until.isoformat())
    kept = (front.home.folder / "ca" / "join_codes.json").read_text()
    assert code.secret.hex() not in kept


def test_the_same_code_again_changes_nothing_and_another_key_is_refused(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome, tmp_path: Path
) -> None:
    code, _ = codes.make("north", by="ana")
    first = join(home, code, door)
    assert join(home, code, door) == first
    with pytest.raises(Conflict, match="used already, by another key"):
        join(SiteHome(tmp_path / "thief"), code, door)
    assert counting(front) == 1


def test_a_code_that_has_ended_is_refused(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome, tmp_path: Path
) -> None:
    replaced, _ = codes.make("north", by="ana")
    withdrawn, _ = codes.make("north", by="ana")
    assert codes.withdraw("north") == 1
    expired, _ = codes.make("south", by="ana", hours=1)
    front.clock.move(hours=1)
    for code in (replaced, withdrawn, expired, JoinCode.new("west", authority_of(front).believed().decode())):
        with pytest.raises(NotAllowed):
            join(SiteHome(tmp_path / code.site), code, door)
    assert authority_of(front).certificates() == {}
    assert {each.state(front.clock.now()) for each in codes.all()} == {"expired", "replaced", "withdrawn"}


def kept_keys(front: Front) -> dict[str, list[str]]:
    """The keys in the file, by site, oldest first."""
    told = json.loads((front.home.folder / "ca" / "join_codes.json").read_text())
    found: dict[str, list[str]] = {}
    for each in told:
        found.setdefault(each["site"], []).append(each["key"])
    return found


def test_what_verifies_a_code_is_forgotten_with_it(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome, tmp_path: Path
) -> None:
    used, _ = codes.make("north", by="ana")
    join(home, used, door)
    codes.make("south", by="ana", hours=1)
    assert kept_keys(front)["north"] != [""], "a site whose answer was lost asks again, and a late one is told"
    codes.make("west", by="ana")
    codes.withdraw("west")
    assert kept_keys(front)["west"] == [""]
    again, _ = codes.make("north", by="ana")
    assert kept_keys(front)["north"] == ["", again.key.hex()]
    assert kept_keys(front)["south"] != [""]
    front.clock.move(hours=1)
    with pytest.raises(NotAllowed):
        door._client.join(code="1" * 64, request="x", proof="2" * 64)
    assert kept_keys(front)["south"] == [""], "any look at the codes is enough"
    join(SiteHome(tmp_path / "north again"), again, door)
    front.clock.move(hours=72)
    assert {each.state(front.clock.now()) for each in codes.all()} == {"expired", "used", "withdrawn"}
    assert {key for keys in kept_keys(front).values() for key in keys} == {""}
    with pytest.raises(NotAllowed):
        join(SiteHome(tmp_path / "late"), again, door)


def test_revoking_a_site_ends_its_code_also_where_its_certificate_is_on_the_way(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome
) -> None:
    code, _ = codes.make("north", by="ana")
    door.back = lambda _: pytest.fail("the answer is lost")  # type: ignore[return-value]
    with pytest.raises(pytest.fail.Exception):
        join(home, code, door)
    said = typed("ca", "revoke", "north", "--home", front.home.folder)
    assert said.returncode == 0, said.stderr
    door.back = lambda answer: answer
    with pytest.raises(NotAllowed):
        join(home, code, door)
    assert counting(front) == 0


def test_proofs_that_do_not_hold_end_a_code_and_many_guesses_are_not_even_heard(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome
) -> None:
    code, _ = codes.make("north", by="ana")
    other, _ = codes.make("south", by="ana")
    door.there = lambda sent: {**sent, "proof": "0" * 64}
    for _ in range(MOST_WRONG):
        with pytest.raises(NotAllowed):
            join(home, code, door)
    door.there = lambda sent: sent
    with pytest.raises(NotAllowed):
        join(home, code, door)
    assert [each.state(front.clock.now()) for each in codes.all() if each.site == "north"] == ["wrong"]
    for _ in range(MOST_STRANGERS - MOST_WRONG - 1):
        with pytest.raises(NotAllowed):
            door._client.join(code="1" * 64, request="x", proof="2" * 64)
    with pytest.raises(Busy):
        door._client.join(code="1" * 64, request="x", proof="2" * 64)
    assert join(SiteHome(home.folder.with_name("south")), other, door).name == "south"  # who has a code is heard


def test_whoever_stands_in_between_can_change_nothing(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome, tmp_path: Path
) -> None:
    code, _ = codes.make("north", by="ana")
    theirs = CertificateAuthority(tmp_path / "stranger", front.clock)
    theirs.init()
    forged: list[Callable[[dict[str, str]], dict[str, str]]] = [
        lambda answer: {**answer, "authority": theirs.believed().decode()},
        lambda answer: {**answer, "authority": answer["authority"] + theirs.believed().decode()},
        lambda answer: {**answer, "certificate": answer["authority"]},
        lambda answer: {**answer, "proof": "0" * 64},
    ]
    for change in forged:
        door.back = change
        with pytest.raises(Refusal, match="did not prove"):
            join(home, code, door)
        assert list(home.link.iterdir()) == []
    door.back = lambda answer: answer
    mine = door.sent[-1]["request"]
    assert {sent["request"] for sent in door.sent} == {mine}  # the same, however often it is asked
    door.there = lambda sent: {**sent, "request": sent["request"].replace("REQUEST-----\n", "REQUEST-----\n\n", 1)}
    with pytest.raises(NotAllowed):
        join(home, code, door)
    door.there = lambda sent: sent
    join(home, code, door)
    holds_together(front, home)


def test_even_who_has_read_the_code_shows_the_site_no_other_authority(
    front: Front, door: Door, codes: JoinCodes, home: SiteHome, tmp_path: Path
) -> None:
    code, _ = codes.make("north", by="ana")
    theirs = CertificateAuthority(tmp_path / "stranger", front.clock)
    theirs.init()

    def swapped(answer: dict[str, str]) -> dict[str, str]:
        believed, request = theirs.believed().decode(), door.sent[-1]["request"]
        public = x509.load_pem_x509_csr(request.encode()).public_key()
        certificate = theirs.certify("north", public, days=30)[1].decode()  # type: ignore[arg-type]
        proof = answer_proof(code.key, request, certificate, believed)
        return {"certificate": certificate, "authority": believed, "proof": proof}

    door.back = swapped
    with pytest.raises(Refusal, match="did not prove"):
        join(home, code, door)
    assert list(home.link.iterdir()) == []


def test_a_code_names_the_authority_of_its_time(front: Front, door: Door, codes: JoinCodes, home: SiteHome) -> None:
    code, _ = codes.make("north", by="ana")
    authority_of(front).rotate()
    with pytest.raises(NotAllowed, match="ask for another code"):
        join(home, code, door)
    code, _ = codes.make("north", by="ana")  # of both
    join(home, code, door)
    holds_together(front, home)


def test_a_home_stays_the_site_that_it_is(front: Front, door: Door, codes: JoinCodes, home: SiteHome) -> None:
    join(home, codes.make("north", by="ana")[0], door)
    with pytest.raises(Mistake, match="this home is the site north's"):
        join(home, codes.make("south", by="ana")[0], door)
    before = (home.link / "site.key").read_bytes()
    join(home, codes.make("north", by="ana")[0], door)  # another code renews
    assert (home.link / "site.key").read_bytes() != before
    holds_together(front, home)


class Killed(BaseException):
    """The process dies here."""


class Desk:
    """The coordinator's side without a server, which would not survive what is done to it."""

    def __init__(self, codes: JoinCodes) -> None:
        self._codes = codes

    def join(self, *, code: str, request: str, proof: str) -> dict[str, str]:
        return asdict(self._codes.redeem(code, request, proof))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("renewed", [False, True], ids=["new", "renewed"])
def test_killed_at_any_step_a_site_has_joined_once_or_not_at_all(
    front: Front, codes: JoinCodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renewed: bool, after: bool
) -> None:
    """Everything that either side writes gets its name by `os.replace`; each of these is the last thing once."""
    plainly, door = os.replace, Desk(codes)
    steps = 0
    for step in range(1, 100):
        home = SiteHome(tmp_path / f"site-{step}")
        authority = authority_of(front)
        if renewed:
            join(home, codes.make("north", by="ana")[0], door)
        earlier = counting(front)
        code, _ = codes.make("north", by="ana")
        left = step

        def replace(source: Any, target: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise Killed
            plainly(source, target)
            if left == 0:
                raise Killed

        monkeypatch.setattr(os, "replace", replace)
        try:
            join(home, code, door)
            died = False
        except Killed:
            died = True
        finally:
            monkeypatch.setattr(os, "replace", plainly)
        assert counting(front) - earlier in (0, 1)
        resume(home)  # what a start of the site does
        if home.link.exists() and (home.link / "site.pem").exists():
            shown = x509.load_pem_x509_certificate((home.link / "site.pem").read_bytes())
            key = serialization.load_pem_private_key((home.link / "site.key").read_bytes(), None)
            assert shown.public_key() == key.public_key()
            assert not isinstance(authority.examine((home.link / "site.pem").read_bytes()), tuple)
        join(home, code, door)
        holds_together(front, home)
        assert counting(front) == earlier + 1
        if not died:
            break
        steps += 1
    assert steps >= 10  # the key, the request, the code's name; the code, the register; four files twice


@pytest.mark.parametrize(
    "slip",
    [
        lambda code: code[:-1],
        lambda code: code + "a",
        lambda code: code.replace("north", "south"),
        lambda code: code.partition(".")[2],
        lambda code: code[:-1] + ("a" if code[-1] != "a" else "b"),
        lambda code: code[:30] + ("a" if code[30] != "a" else "b") + code[31:],
        lambda code: "",
        lambda code: "north.ümlaut",
        lambda code: "x" * 10_000,
    ],
)
def test_a_slip_of_the_hand_is_told_apart(slip: Callable[[str], str]) -> None:
    code = str(JoinCode.new("north", "PEM"))
    with pytest.raises(Mistake, match="copy it again"):
        JoinCode.read(slip(code))


def test_a_code_may_be_typed_in_capitals_with_spaces_and_hyphens() -> None:
    code = JoinCode.new("north.west-1", "PEM")
    site, _, letters = str(code).rpartition(".")
    assert JoinCode.read(f" {site}.{letters[:8].upper()}-{letters[8:20]} {letters[20:]}\n") == code


def test_operators_make_and_take_back_codes_over_rest_and_nobody_else_does(front: Front) -> None:
    made = front.client.post("/api/site/north/code", json={}, headers=front.admin)
    assert made.status_code == 201
    assert JoinCode.read(made.json()["code"]).site == "north"
    (told,) = front.client.get("/api/site/code", headers=front.admin).json()
    assert (told["site"], told["state"], told["wrong"], told["days"]) == ("north", "open", 0, 30)
    assert not {"code", "key", "name"} & set(told)
    assert front.client.delete("/api/site/north/code", headers=front.admin).status_code == 204
    assert front.client.delete("/api/site/north/code", headers=front.admin).status_code == 404
    assert front.client.post("/api/site/local/code", json={}, headers=front.admin).status_code == 422
    front.service.accounts.add("ana", "a long password", Role.REQUESTOR)
    token = front.client.post("/api/login", json={"username": "ana", "password": "a long password"}).json()["token"]
    for headers, status in (({}, 401), ({"Authorization": f"Bearer {token}"}, 403)):
        assert front.client.post("/api/site/north/code", json={}, headers=headers).status_code == status
        assert front.client.get("/api/site/code", headers=headers).status_code == status
        assert front.client.delete("/api/site/north/code", headers=headers).status_code == status


def test_an_operator_makes_a_code_on_the_page_of_sites(front: Front) -> None:
    assert "Invite a site" not in front.client.get("/sites").text
    front.client.post("/sign-in", json={"token": front.admin_token}, headers=HERE)
    assert "Invite a site" in front.client.get("/sites").text
    told = {**HERE, "hx-request-type": "partial"}
    shown = front.client.post("/sites/code", json={"site": "north"}, headers=told).text
    assert JoinCode.read(shown.partition('<code class="long">')[2].partition("<")[0]).site == "north"
    assert "not used yet" in shown
    assert "must be lower-case" in front.client.post("/sites/code", json={"site": "No <b>"}, headers=told).text
    assert '<code class="long">' not in front.client.get("/sites").text  # it is shown once
    shown = front.client.post("/sites/code/withdraw", json={"site": "north"}, headers=told).text
    assert "no longer valid" in shown
    assert (
        front.client.post("/sites/code", json={"site": "north"}, headers={"origin": "http://evil"}).status_code == 403
    )


def test_codes_go_through_files_and_standard_input_not_through_arguments(
    front: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = front.home.folder, tmp_path / "code"
    assert typed("ca", "invite", "north", "--home", folder, "--out", out).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    code = out.read_text()
    assert "does not exist yet" in typed("ca", "invite", "north", "--home", folder, "--out", out).stderr
    listed = typed("ca", "list", "--home", folder).stdout
    assert "replaced" not in listed  # what could not be written has ended nothing
    assert "north  join code open" in listed
    assert code.strip() not in listed
    there = ("site", "join", "http://127.0.0.1:9", "--home", tmp_path / "site")
    assert "nothing answers there" in typed(*there, "--code-file", out).stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(code))
    assert "nothing answers there" in typed(*there, "--code-stdin").stderr
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert "use --code-stdin or --code-file" in typed(*there).stderr
    said = typed("ca", "revoke", "north", "--home", folder)
    assert said.stdout == "The join code of north is no longer valid; it had no certificate.\n"


def test_a_file_of_json_with_a_code_is_for_its_owner_alone(front: Front, tmp_path: Path) -> None:
    fresh, open_to_all = tmp_path / "fresh.json", tmp_path / "open.json"
    open_to_all.write_text("{}")
    open_to_all.chmod(0o644)
    for file in (fresh, open_to_all):
        ended = typed("ca", "invite", "north", "--home", front.home.folder, "--json", file)
        assert ended.returncode == 0, ended.stderr
        assert JoinCode.read(json.loads(file.read_text())["code"]).site == "north"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for words, file in (
        (("create", "city", "--minimum", "3"), tmp_path / "created.json"),
        (("enrol", "city", "ana"), tmp_path / "enrolled.json"),
    ):
        ended = typed("group", *words, "--home", front.home.folder, "--json", file)
        assert ended.returncode == 0, ended.stderr
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_copy_has_no_join_code_that_was_perhaps_used_since(front: Front, codes: JoinCodes, tmp_path: Path) -> None:
    codes.make("north", by="ana")
    for words in (
        ("backup", front.home.folder, "--to", tmp_path / "copy"),
        ("restore", tmp_path / "copy", "--home", tmp_path / "again"),
    ):
        ended = typed(*words)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "again" / "ca" / "authority.key").exists()
    assert not (tmp_path / "again" / "ca" / "join_codes.json").exists()

"""Signing in at an institution's identity provider: a server by somebody else, forgeries, groups that come and go."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.coordinator import AGES, Front
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.auth.identity_provider import OidcSettings, provider_of
from thebes.coordinator.settings import read
from thebes.privacy.faults import Mistake
from thebes.wire.identity_provider import Identity, IdentityProvider
from thebes.wire.refusals import NotSignedIn, Unreachable

oidc_provider_mock = pytest.importorskip("oidc_provider_mock")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
GROUPS = {"ana": ["analysts", "guests"], "bob": ["admins", "analysts"], "eve": ["guests"], "aud": ["auditors"]}


class RealClock:
    """The time, which a test can let pass."""

    def __init__(self) -> None:
        self.more = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.more


@pytest.fixture
def provider() -> Iterator[Any]:
    users = [oidc_provider_mock.User(sub=name, claims={"groups": groups}) for name, groups in GROUPS.items()]
    with oidc_provider_mock.run_server_in_thread(user_claims=users) as server:
        yield server


def issuer(server: Any) -> str:
    return f"http://localhost:{server.server_port}"


def settings(server: Any, **more: Any) -> str:
    written = {
        "issuer": issuer(server),
        "client_id": "thebes",
        "client_secret_file": "oidc.secret",
        "scopes": ["groups"],
        **more,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in written.items()]
    roles = 'roles = { analysts = "requestor", admins = "operator", auditors = "auditor" }'
    return "\n".join(["[oidc]", *lines, roles]) + "\n"


@pytest.fixture
def front(provider: Any, tmp_path: Path) -> Iterator[Front]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "coordinator.toml").write_text(settings(provider))
    (home / "oidc.secret").write_text("secret\n")
    (home / "oidc.secret").chmod(0o600)
    with Front(home, clock=RealClock()) as made:  # type: ignore[arg-type]
        yield made


def left(front: Front, then: str = "/ask") -> str:
    """Leave for the provider; the address there."""
    front.client.cookies.clear()
    answer = front.client.get("/sign-in/begin", params={"then": then}, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def decided(place: str, who: str) -> str:
    """Say at the provider who one is; the address on the way back, below the coordinator."""
    with httpx.Client() as client:
        client.get(place)
        back = client.post(place, data={"sub": who}).headers["location"]
    return str(back).removeprefix("http://testserver")


def signed_in(front: Front, who: str) -> Any:
    return front.client.get(decided(left(front), who))


def shown_as(front: Front) -> str | None:
    found = re.search(
        r'class="who"[^>]*><strong>([^<]*)</strong>(?: <span class="tag">([^<]*))?', front.client.get("/").text
    )
    return None if found is None else f"{found[1]} {found[2]}"


def test_somebody_signs_in_with_the_role_of_their_groups_and_asks(front: Front) -> None:
    assert 'href="/sign-in/begin?then=/"' in front.client.get("/sign-in").text
    answer = signed_in(front, "ana")
    assert (answer.status_code, 'content="0; url=/ask"' in answer.text) == (200, True)
    assert shown_as(front) == "ana@localhost requestor"
    cookies = answer.headers.get_list("set-cookie")
    assert any("SameSite=strict" in c and "HttpOnly" in c for c in cookies)
    token = (
        front.client.cookies["thebes"]
        if "thebes" in front.client.cookies
        else next(value for name, value in front.client.cookies.items() if not name.endswith("-begun"))
    )
    asked = front.client.post("/api/task", json=AGES, headers={"Authorization": f"Bearer {token}"})
    assert front.task(asked.json()["task_id"])["requestor"] == "ana@localhost"
    assert signed_in(front, "bob").status_code == 200
    assert shown_as(front) == "bob@localhost operator"
    signed_in(front, "aud")
    assert shown_as(front) == "aud@localhost auditor"


def test_who_has_no_group_of_ours_is_not_let_in_and_a_password_is_nobodys(front: Front) -> None:
    answer = signed_in(front, "eve")
    assert (answer.status_code, "none of your groups may ask here" in answer.text) == (401, True)
    assert shown_as(front) is None
    signed_in(front, "ana")
    for password in ("", "secret", "correct horse battery"):
        with pytest.raises(NotSignedIn):
            front.service.accounts.login("ana@localhost", password)


def test_a_name_that_somebody_has_with_a_password_is_not_taken(front: Front) -> None:
    front.service.accounts.add("ana@localhost", "correct horse battery", Role.AUDITOR)
    signed_in(front, "ana")
    assert str(shown_as(front)).startswith("oidc-")
    front.service.accounts.login("ana@localhost", "correct horse battery")


def test_a_group_that_is_lost_ends_sessions_and_one_that_comes_back_lets_in_again(front: Front, provider: Any) -> None:
    accounts = front.service.accounts
    me = Identity(issuer(provider), "ana", "requestor")
    token, _ = accounts.federated.login(me)
    assert accounts.who(token).name == "ana@localhost"
    device, code = accounts.devices.begin("a notebook", "127.0.0.1")
    accounts.devices.decide(code, "ana@localhost", let_in=True)
    with pytest.raises(NotSignedIn, match="none of your groups"):
        accounts.federated.login(Identity(me.issuer, "ana", None))
    with pytest.raises(NotSignedIn, match="may no longer log in"):
        accounts.who(token)
    again, _ = accounts.federated.login(Identity(me.issuer, "ana", "operator"))
    assert accounts.who(again).role is Role.OPERATOR
    with pytest.raises(NotSignedIn, match="no longer valid"):  # let in before the group was lost
        accounts.devices.claim(device)
    accounts.disable("ana@localhost")
    with pytest.raises(NotSignedIn, match="shut out by whoever runs this server"):
        accounts.federated.login(me)
    with pytest.raises(NotSignedIn, match="none of your groups"):
        accounts.federated.login(Identity(me.issuer, "ana", None))
    with pytest.raises(NotSignedIn, match="shut out"):
        accounts.federated.login(me)
    assert accounts.federated.login(Identity("https://other.example", "ana", "requestor"))


def test_whom_an_operator_shuts_out_after_their_groups_were_lost_stays_out(front: Front, provider: Any) -> None:
    accounts, me = front.service.accounts, Identity(issuer(provider), "ana", "requestor")
    accounts.federated.login(me)
    for before in ((), ("grant",)):
        with pytest.raises(NotSignedIn, match="none of your groups"):
            accounts.federated.login(Identity(me.issuer, "ana", None))
        if before:
            accounts.grant("ana@localhost", Role.REQUESTOR)
        accounts.disable("ana@localhost")
        with pytest.raises(NotSignedIn, match="shut out"):
            accounts.federated.login(me)
        accounts.grant("ana@localhost", Role.REQUESTOR)
        accounts.federated.login(me)


def test_what_comes_back_counts_in_the_browser_that_left_in_time_and_once(front: Front) -> None:
    back = decided(left(front), "ana")
    front.client.cookies.clear()
    for told in (front.client.get(back), front.client.get("/sign-in/back?code=x&state=y")):
        assert (told.status_code, told.url.path, shown_as(front)) == (200, "/sign-in", None)
    back = decided(left(front), "ana")
    state = parse_qs(urlsplit(back).query)["state"][0]
    forged = front.client.get(back.replace(state, "x" * len(state)))
    assert (forged.status_code, "not begun in this browser" in forged.text) == (401, True)
    back = decided(left(front), "ana")
    front.clock.more = timedelta(minutes=11)
    assert front.client.get(back).url.path == "/sign-in"
    assert shown_as(front) is None
    front.clock.more = timedelta()
    back = decided(left(front), "ana")
    assert front.client.get(back).status_code == 200
    assert front.client.get(back).url.path == "/sign-in", "the cookie is gone, and the code was used"
    left(front)
    assert front.client.get("/sign-in/back?error=access_denied").status_code == 401
    assert decided(left(front, then="https://evil.example"), "ana")
    assert front.client.get(decided(left(front, then="//evil.example"), "ana")).text.count("evil.example") == 0


def test_a_provider_that_is_away_refuses_sign_ins_and_ends_no_session(front: Front, provider: Any) -> None:
    signed_in(front, "ana")
    kept = dict(front.client.cookies)
    back = decided(left(front), "ana")
    provider.shutdown()
    provider.server_close()
    answer = front.client.get(back)
    assert (answer.status_code, "does not answer" in answer.text) == (401, True)
    front.client.cookies.clear()
    for name, value in kept.items():
        front.client.cookies.set(name, value)
    assert shown_as(front) == "ana@localhost requestor"


# --- a client without a secret -----------------------------------------------------------------------------------


@contextmanager
def public_front(home: Path, *, announced: bool = True) -> Iterator[Front]:
    """A coordinator that is a client without a secret, at a provider that holds such clients to PKCE."""
    from oidc_provider_mock._server import _threaded_server

    from tests.support.public_provider import public_app

    users = [oidc_provider_mock.User(sub="ana", claims={"groups": GROUPS["ana"]})]
    home.mkdir(mode=0o700)
    with _threaded_server(public_app(users, announced=announced)) as server:
        told = settings(server).replace('client_secret_file = "oidc.secret"\n', "")
        (home / "coordinator.toml").write_text(told)
        with Front(home, clock=RealClock()) as made:  # type: ignore[arg-type]
            yield made


def test_a_client_without_a_secret_comes_in_by_pkce_alone(tmp_path: Path) -> None:
    with public_front(tmp_path / "home") as front:
        assert signed_in(front, "ana").status_code == 200
        assert shown_as(front) == "ana@localhost requestor"
        told = read(tmp_path / "home").oidc
        assert told is not None
        checker = IdentityProvider(told, None, time.time)
        begun = checker.begin("http://testserver/sign-in/back")
        code = parse_qs(urlsplit(decided(begun.url, "ana")).query)["code"][0]
        other = replace(begun, verifier="x" * 43)  # whoever has the code alone
        with pytest.raises(NotSignedIn, match="does not accept this sign-in"):
            checker.finish(other, "http://testserver/sign-in/back", state=begun.state, code=code)


def test_a_client_without_a_secret_is_refused_where_nobody_says_that_pkce_is_checked(tmp_path: Path) -> None:
    with public_front(tmp_path / "home", announced=False) as front:
        answer = front.client.get("/sign-in/begin", headers={"accept": "text/html"}, follow_redirects=False)
        assert answer.status_code == 422
        assert "does not say that it checks PKCE" in answer.text
        assert "register a client with a secret there" in answer.text


# --- tokens -----------------------------------------------------------------------------------------------------


class Keys:
    """A provider's keys, shown by a server of our own that counts how often it is asked."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.name, self.asked = "k1", 0
        self.later = 0.0
        settings = OidcSettings(issuer="https://idp.example", client_id="thebes", roles={"a": "requestor"})
        self.checker = IdentityProvider(settings, None, lambda: time.time() + self.later)
        self.checker._asked = self.answer  # type: ignore[method-assign]

    def answer(self, method: str, place: str, **more: Any) -> dict[str, Any]:
        if place.endswith("openid-configuration"):
            return {"issuer": "https://idp.example", "jwks_uri": "https://idp.example/keys"}
        self.asked += 1
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [{**public, "kid": self.name, "use": "sig", "alg": "RS256"}]}

    def token(self, key: Any = None, algorithm: str = "RS256", kid: str | None = None, **more: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": "https://idp.example",
            "aud": "thebes",
            "sub": "ana",
            "exp": now + 300,
            "iat": now,
            "nonce": "n",
        }
        body = {name: value for name, value in {**claims, **more}.items() if value is not None}
        return jwt.encode(body, key or self.key, algorithm=algorithm, headers={"kid": kid or self.name})


@pytest.fixture(scope="module")
def keys() -> Keys:
    return Keys()


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "x"}, {"nonce": None}, {"aud": "other"}, {"aud": ["other"]}, {"exp": 1}, {"exp": None},
        {"iat": 4_000_000_000}, {"iat": None}, {"iss": "https://idp.example.evil"}, {"iss": None}, {"sub": None},
        {"sub": ""}, {"sub": "x" * 256}, {"azp": "other", "aud": ["thebes", "other"]}, {"exp": "soon"},
        {"aud": ["thebes", "other"]},
    ],
)  # fmt: skip
def test_a_token_that_says_anything_else_proves_nobody(keys: Keys, forged: dict[str, Any]) -> None:
    assert keys.checker.checked(keys.token(), "n").subject == "ana"
    with pytest.raises(NotSignedIn, match="does not prove who you are"):
        keys.checker.checked(keys.token(**forged), "n")


def test_a_token_by_another_key_or_algorithm_proves_nobody(keys: Keys) -> None:
    other = rsa.generate_private_key(65537, 2048)
    unsigned = jwt.encode({"sub": "ana"}, "", algorithm="none")
    secret = keys.token(key="thebes" * 8, algorithm="HS256")
    for token in (keys.token(key=other), unsigned, secret, keys.token() + "x", "", "a.b.c", keys.token(kid="none")):
        with pytest.raises(NotSignedIn):
            keys.checker.checked(token, "n")


def test_a_key_that_changes_is_found_and_nobody_makes_us_ask_without_end() -> None:
    keys = Keys()
    keys.checker.checked(keys.token(), "n")
    keys.key, keys.name = rsa.generate_private_key(65537, 2048), "k2"
    with pytest.raises(NotSignedIn):  # it was looked for just now
        keys.checker.checked(keys.token(), "n")
    keys.later = 11
    assert keys.checker.checked(keys.token(), "n").subject == "ana"
    before = keys.asked
    for _ in range(20):
        with pytest.raises(NotSignedIn):
            keys.checker.checked(keys.token(kid="unknown"), "n")
    assert keys.asked - before <= 1


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["a"], "requestor"),
        ("a", "requestor"),
        (["b"], None),
        (None, None),
        ({"a": 1}, None),
        ([], None),
        ([["a"], {"a": 1}], None),
    ],
)
def test_groups_that_are_no_groups_give_no_role(keys: Keys, groups: Any, role: str | None) -> None:
    assert keys.checker.checked(keys.token(groups=groups), "n").role == role


def test_names_are_readable_where_they_can_be_and_never_the_same_for_two() -> None:
    plain = Identity("https://idp.example/x", "ana", None)
    assert plain.name == "ana@idp.example"
    odd = [Identity("https://idp.example", subject, None) for subject in ("a b", "ä", "a,b", "x" * 100, "x" * 101)]
    names = [each.name for each in odd]
    assert len({*names}) == 5
    assert all(re.fullmatch(r"oidc-[0-9a-f]{32}", name) for name in names)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"issuer": "http://idp.example"}, "oidc.issuer"),
        ({"issuer": "https://idp.example?x=1"}, "oidc.issuer"),
        ({"client_id": ""}, "oidc.client_id"),
        ({"secret": "x"}, "oidc.secret"),
    ],
)
def test_settings_that_cannot_be_are_named(provider: Any, tmp_path: Path, more: dict[str, Any], field: str) -> None:
    (tmp_path / "coordinator.toml").write_text(settings(provider, **more))
    with pytest.raises(Mistake, match=field):
        read(tmp_path)
    (tmp_path / "coordinator.toml").write_text(settings(provider).replace('"operator"', '"king"'))
    with pytest.raises(Mistake, match="gives the role 'king'"):
        read(tmp_path)


def test_a_secret_that_others_read_is_refused(provider: Any, tmp_path: Path) -> None:
    (tmp_path / "coordinator.toml").write_text(settings(provider))
    (tmp_path / "oidc.secret").write_text("secret")
    (tmp_path / "oidc.secret").chmod(0o644)
    with pytest.raises(Mistake, match="only its owner reads"):
        provider_of(read(tmp_path).oidc, tmp_path, RealClock())
    (tmp_path / "oidc.secret").unlink()
    with pytest.raises(Mistake, match=r"cannot read oidc\.secret"):
        provider_of(read(tmp_path).oidc, tmp_path, RealClock())


def test_a_provider_that_calls_itself_otherwise_is_not_trusted(provider: Any) -> None:
    wrong = OidcSettings(issuer=f"{issuer(provider)}/", client_id="t", roles={"a": "requestor"})
    with pytest.raises(Mistake, match="is not how the provider calls itself"):
        IdentityProvider(wrong, None, time.time).begin("http://testserver/sign-in/back")
    gone = OidcSettings(issuer="http://127.0.0.1:9", client_id="t", roles={"a": "requestor"})
    with pytest.raises(Unreachable, match="does not answer"):
        IdentityProvider(gone, None, time.time).begin("http://testserver/sign-in/back")

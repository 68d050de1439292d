"""Promises of every source behind another system's interface, on real sockets: REDCap and OpenSpecimen alike."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.openspecimen import Bank, OpenSpecimenServer, User
from tests.support.redcap import Entry, Project, RedcapServer, Variable
from tests.support.web import Reply, WebServer
from thebes.data.connectors import web
from thebes.data.connectors.connector import Connector, SourceUnavailable
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.source import frame_table, table_of
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake, ThebesError

TOWNS = ("Zürich", "łódź", "東京", "São Paulo", "naïve 🫀")
PEOPLE = [{"who": f"P-{n}", "age": 18 + n % 60, "town": TOWNS[n % 5]} for n in range(103)]
SCHEMA = schema_of(
    {
        "unit": "person",
        "columns": {
            "who": {"type": "string", "key": True},
            "age": {"type": "integer", "low": 0, "high": 100},
            "town": {"type": "string", "values": list(TOWNS)},
        },
    }
)
WANTED = Sums((Term(), Term((Factor("age", 1, 1),))), axes=(Axis("town", values=TOWNS),))
SECRETS = ("P-", "Zürich", "łódź", "VALUE-OF-A-ROW")


@dataclass
class System:
    """One system with its people in it, and how it is opened."""

    server: Any
    source: dict[str, Any]
    secret: str
    #: how many questions come before the first page
    before: int
    folder: Path

    def open(self, **more: Any) -> Connector:
        return open_connector({**self.source, **more}, folder=self.folder)

    def rows(self, *, where: str | None = None, **more: Any) -> list[tuple[object, ...]]:
        """All rows, as the source gives them."""
        connector = self.open(**more)
        try:
            condition = None if where is None else read_filter(where, SCHEMA)
            batches = list(connector.batches(["who", "age", "town"], condition))
        finally:
            connector.close()
        return [row for batch in batches for row in zip(batch["who"], batch["age"], batch["town"], strict=True)]

    def refusal(self, **more: Any) -> str:
        """Return why the rows cannot be read; never with a secret or a value."""
        with pytest.raises(ThebesError) as caught:
            self.rows(**more)
        said = str(caught.value)
        assert isinstance(caught.value, (SourceUnavailable, Mistake)), repr(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        for hidden in (*SECRETS, self.secret):
            assert hidden not in said
        return said


def redcap(**more: Any) -> tuple[RedcapServer, dict[str, Any], str]:
    variables = (
        Variable("record_id"),
        Variable("age", validation="integer"),
        Variable("town"),
    )
    entries = [Entry(str(p["who"]), {"age": str(p["age"]), "town": str(p["town"])}) for p in PEOPLE]
    server = RedcapServer(Project(variables, entries), **more)
    source = {"kind": "redcap", "url": server.url, "token_file": "secret", "columns": {"who": "record_id"}}
    return server, source, server.token


def openspecimen(**more: Any) -> tuple[OpenSpecimenServer, dict[str, Any], str]:
    fields = {"Participant.id": "INTEGER", "Participant.ppid": "STRING", "Participant.age": "INTEGER"}
    fields |= {"Participant.town": "STRING"}
    rows: list[dict[str, Any]] = [
        {
            "Participant.id": 7 * n + 1,
            "Participant.ppid": p["who"],
            "Participant.age": p["age"],
            "Participant.town": p["town"],
        }
        for n, p in enumerate(PEOPLE)
    ]
    server = OpenSpecimenServer(Bank(fields, rows), **more)
    source = {
        "kind": "openspecimen",
        "url": server.url,
        "user": "reader",
        "password_file": "secret",
        "row": "Participant.id",
        "columns": {"who": "Participant.ppid", "age": "Participant.age", "town": "Participant.town"},
    }
    return server, source, server.password


SYSTEMS: dict[str, tuple[Callable[..., tuple[Any, dict[str, Any], str]], int]] = {
    "redcap": (redcap, 4),  # the project, its fields, their names in exports, the list of records
    "openspecimen": (openspecimen, 2),  # the session, the types of the columns
}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.002)


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[System]:
    made, before = SYSTEMS[request.param]
    server, source, secret = made()
    with server:
        yield System(server, {**source, "timeout_seconds": 5}, written(tmp_path, secret), before, tmp_path)


def written(folder: Path, secret: str) -> str:
    path = folder / "secret"
    path.write_text(secret + "\n")
    path.chmod(0o600)
    return secret


def expected() -> list[tuple[object, ...]]:
    return sorted((p["who"], str(p["age"]), p["town"]) for p in PEOPLE)


# --- what is read ------------------------------------------------------------------------------------------


@pytest.mark.few(5)
@pytest.mark.parametrize("page", [1, 2, 7, 50, 102, 103, 104, 500])
def test_all_rows_are_read_once_however_many_come_at_a_time(system: System, page: int) -> None:
    assert sorted(system.rows(page=page)) == expected()


def test_a_table_over_it_counts_like_a_table_over_the_same_rows(system: System) -> None:
    table = table_of(SCHEMA, {**system.source, "page": 20}, folder=system.folder)
    try:
        assert table.sums(WANTED).tolist() == frame_table(SCHEMA, pd.DataFrame(PEOPLE)).sums(WANTED).tolist()
        [batch] = table.batches(["age"])
        assert sorted(batch.numbers[:, 0]) == sorted(p["age"] for p in PEOPLE)
    finally:
        table.close()


def test_columns_are_told_without_reading_a_row(system: System) -> None:
    connector = system.open()
    assert {"who": "text", "age": "text", "town": "text"}.items() <= connector.columns().items()
    connector.close()
    assert not any(hidden.encode() in call.body for call in system.server.calls for hidden in ("P-", "filterLogic"))


def test_a_condition_spares_most_of_the_way(system: System) -> None:
    found = system.rows(where=f"age = 77 AND (town <> '{TOWNS[0]}' OR town IS NOT NULL)")
    assert {row[1] for row in found} == {"77"}
    assert len(found) == sum(p["age"] == 77 for p in PEOPLE)


def test_an_empty_source_gives_no_rows(system: System) -> None:
    kept = system.server.project.entries if isinstance(system.server, RedcapServer) else system.server.bank.rows
    kept.clear()
    assert system.rows() == []
    table = table_of(SCHEMA, system.source, folder=system.folder)
    assert table.sums(Sums((Term(),))).tolist() == [[0]]
    table.close()


def test_rows_can_be_read_again_and_again(system: System) -> None:
    connector = system.open(page=40)
    for _ in range(2):
        assert sum(len(batch["who"]) for batch in connector.batches(["who"])) == len(PEOPLE)
    assert sum(len(next(iter(batch.values()))) for batch in connector.batches([])) == len(PEOPLE)
    connector.close()


def test_nothing_but_reading_is_asked(system: System) -> None:
    system.rows(page=30, where="age > 20")
    if isinstance(system.server, RedcapServer):
        assert {call.method for call in system.server.calls} == {"POST"}
        assert {asked["content"] for asked in system.server.asked} == {
            "project",
            "metadata",
            "exportFieldNames",
            "record",
        }
        assert all(not asked.keys() & {"data", "action", "overwriteBehavior"} for asked in system.server.asked)
    else:
        asked = {(call.method, call.path.removeprefix("/openspecimen/rest/ng")) for call in system.server.calls}
        assert asked == {("POST", "/sessions"), ("POST", "/query"), ("DELETE", "/sessions")}
        assert all(query["aql"].startswith("select distinct ") for query in system.server.queries)


# --- what is refused -----------------------------------------------------------------------------------------


def test_a_wrong_secret_is_said_and_not_shown(system: System) -> None:
    wrong = "0" * 32
    written(system.folder, wrong)
    said = system.refusal()
    assert "does not accept" in said
    assert wrong not in said


def test_a_secret_that_others_can_read_is_not_used(system: System) -> None:
    (system.folder / "secret").chmod(0o640)
    assert "chmod 600" in system.refusal()
    assert not system.server.calls


def test_a_source_without_a_secret_is_refused(system: System) -> None:
    source = {k: v for k, v in system.source.items() if not k.endswith("_file")}
    with pytest.raises(Mistake, match=r"source\.(token_file|user)"):
        open_connector(source, folder=system.folder)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://redcap.example.org/api/", "https://"),
        ("ftp://redcap.example.org", "address"),
        ("https://me:word@redcap.example.org/api/", "password"),
        ("https://redcap.example.org/api/?token=1", "query"),
        ("https://redcap.example.org:port/", "address"),
        ("https://red cap.example.org/", "address"),
        ("", "address"),
    ],
)
def test_an_address_where_a_secret_is_not_safe_is_refused(system: System, url: str, said: str) -> None:
    refused = system.refusal(url=url)
    assert "source.url" in refused
    assert said in refused


@pytest.mark.parametrize("wrong", [{"page": 0}, {"page": "9"}, {"timeout_seconds": 0}, {"colour": 1}, {"columns": 3}])
def test_a_description_that_cannot_be_read_names_its_field(system: System, wrong: dict[str, Any]) -> None:
    assert f"source.{next(iter(wrong))}" in system.refusal(**wrong)


def test_a_column_that_is_not_there_is_named(system: System) -> None:
    connector = system.open(columns={**system.source["columns"], "weight": "Participant.weight"})
    with pytest.raises(Mistake, match=r"source\.columns\.weight: .*'Participant\.weight'"):
        connector.columns()
    connector.close()


def test_a_declared_column_that_the_source_lacks_is_named(system: System) -> None:
    body = SCHEMA.as_json()
    body["columns"]["height"] = {"type": "float", "low": 0.0, "high": 3.0}
    with pytest.raises(Mistake, match="height"):
        table_of(schema_of(body), system.source, folder=system.folder)


# --- servers as they are ---------------------------------------------------------------------------------------


def test_a_server_that_is_away_is_said(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    said = system.refusal(url=f"http://127.0.0.1:{port}/api/")
    assert f"127.0.0.1:{port} does not answer" in said


def test_a_server_that_is_slow_is_not_waited_for_without_end(system: System) -> None:
    system.server.odd.append(Reply.of(200, [], slowly=1.0))
    assert "in time" in system.refusal(timeout_seconds=0.2)


def test_an_answer_that_trickles_in_is_not_waited_for_without_end(system: System) -> None:
    system.server.odd.append(Reply.of(200, ["x"] * 500, slowly=0.05, drips=True))
    assert "in time" in system.refusal(timeout_seconds=0.4)


@pytest.mark.parametrize("status", [429, 502, 503])
def test_a_busy_server_is_asked_again(system: System, status: int) -> None:
    for _ in range(3):
        system.server.odd += [Reply.page(status, "VALUE-OF-A-ROW", headers={"Retry-After": "0"}), None]
    assert sorted(system.rows(page=40)) == expected()


def test_a_server_that_stays_busy_is_left_alone_after_some_tries(system: System) -> None:
    system.server.odd += [Reply.page(503, "VALUE-OF-A-ROW") for _ in range(web.TRIES)]
    assert "too much to do" in system.refusal()
    assert len(system.server.calls) == web.TRIES


def test_a_rate_limit_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.5)
    server, source, secret = redcap(most=5, window=0.4)
    with server:
        made = System(server, source, written(tmp_path, secret), 4, tmp_path)
        assert sorted(made.rows(page=20)) == expected()
    assert len(server.calls) > 10


def test_a_connection_that_breaks_is_opened_again(system: System) -> None:
    system.server.odd += [None] * system.before + [Reply.of(200, ["VALUE-OF-A-ROW"] * 99, cut=True)]
    assert sorted(system.rows(page=40)) == expected()


def test_a_connection_that_always_breaks_is_said(system: System) -> None:
    system.server.odd += [Reply.of(200, ["VALUE-OF-A-ROW"] * 99, cut=True) for _ in range(web.TRIES)]
    assert "broke the connection" in system.refusal()


def test_a_sign_in_page_in_place_of_an_answer_is_said(system: System) -> None:
    system.server.odd.append(Reply.page(200, "VALUE-OF-A-ROW"))
    assert "a page instead of data" in system.refusal()


def test_a_redirection_is_not_followed(system: System) -> None:
    with WebServer() as other:
        system.server.odd.append(Reply.page(302, headers={"Location": f"{other.address}/VALUE-OF-A-ROW"}))
        assert "another address" in system.refusal()
        assert not other.calls


def test_a_wrong_path_is_said(system: System) -> None:
    assert "source.url" in system.refusal(url=system.server.address)


@pytest.mark.parametrize("status", [400, 403, 404, 406, 410, 500, 501, 504])
def test_what_the_server_says_of_a_failure_reaches_no_message(system: System, status: int) -> None:
    told = [{"code": "VALUE-OF-A-ROW", "message": "VALUE-OF-A-ROW"}]
    system.server.odd += [None] * (system.before + 1) + [Reply.of(status, told)] * 4
    said = system.refusal(page=40)
    assert "page" in said or str(status) in said or "accept" in said or "source." in said


def test_a_page_that_fails_half_way_answers_nothing(system: System) -> None:
    table = table_of(SCHEMA, {**system.source, "page": 30}, folder=system.folder)
    reached = len(system.server.calls)
    again = 1 if isinstance(system.server, OpenSpecimenServer) else 0  # its session is open already
    system.server.odd += [None] * (system.before + 1 - again) + [Reply.of(500, "VALUE-OF-A-ROW")]
    with pytest.raises(SourceUnavailable, match="500"):
        table.sums(WANTED)
    assert len(system.server.calls) == reached + system.before + 2 - again
    assert table.sums(WANTED).tolist() == frame_table(SCHEMA, pd.DataFrame(PEOPLE)).sums(WANTED).tolist()
    table.close()


def test_an_answer_that_is_too_large_is_not_taken(system: System) -> None:
    huge = Reply.of(200, ["VALUE-OF-A-ROW" * 1000] * 100)
    system.server.odd += [None] * system.before + [huge]
    said = system.refusal(most_mebibytes=1)
    assert "1 MiB" in said
    assert "source.page" in said


SHAPES: list[Any] = [
    {},
    [],
    None,
    7,
    "VALUE-OF-A-ROW",
    [7],
    [[["VALUE-OF-A-ROW"]]],
    [{"record_id": ["VALUE-OF-A-ROW"]}],
    [{"record_id": {}, "age": 1}],
    [{"age": "1"}],
    {"rows": None},
    {"rows": [["1", "VALUE-OF-A-ROW"]]},
    {"rows": [["x", "a", "b", "c"]]},
    {"rows": [["1", "a", "b", "c"], ["1", 7, [], {}]]},
    {"rows": [["9", "a", "b", "c"], ["8", "a", "b", "c"]]},
    {"rows": [["-5", "a", "b", "c"]]},
    {"error": "VALUE-OF-A-ROW"},
]


@pytest.mark.few(3)
@pytest.mark.parametrize("before", [0, 1, 2, 3, 4])
def test_an_answer_of_another_shape_is_refused_or_holds_nothing(system: System, before: int) -> None:
    connector = system.open()
    refused = 0
    for body in SHAPES:
        system.server.odd.clear()
        system.server.odd += [None] * before + [Reply.of(200, body)]
        try:
            batches = list(connector.batches(["who", "age", "town"]))
        except (SourceUnavailable, Mistake) as error:
            said, refused = str(error), refused + 1
            if any(hidden in said for hidden in (*SECRETS, system.secret)):
                pytest.fail(f"shows what it was told: {said}")
        else:
            assert sum(len(batch["who"]) for batch in batches) in (0, len(PEOPLE))
    signed_in = isinstance(system.server, OpenSpecimenServer)  # and stays so after the first time
    assert refused >= 10 or before > system.before - signed_in
    connector.close()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 200_000, b'{"rows": [', b"NaN"])
def test_an_answer_that_is_no_json_is_refused(system: System, content: bytes) -> None:
    system.server.odd += [None] * system.before + [Reply(200, content)]
    assert "JSON" in system.refusal() or content == b"NaN"


def test_an_answer_that_comes_packed_is_refused(system: System) -> None:
    system.server.odd.append(Reply.of(200, [], headers={"Content-Encoding": "gzip"}))
    assert "compresses" in system.refusal()


def test_the_environment_names_no_way_round(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert len(system.rows()) == len(PEOPLE)


# --- certificates --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for this machine that no public authority knows, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a hospital's own")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("certified")
    held = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.pem").write_bytes(held + made.public_bytes(Encoding.PEM))
    (folder / "authority.pem").write_bytes(made.public_bytes(Encoding.PEM))
    return folder


@pytest.mark.parametrize("name", SYSTEMS)
def test_only_a_certificate_that_can_be_verified_gets_the_secret(name: str, certified: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certified / "server.pem")
    made, before = SYSTEMS[name]
    server, source, secret = made(tls=context)
    with server:
        system = System(server, source, written(tmp_path, secret), before, tmp_path)
        assert "source.ca_file" in system.refusal()
        assert not server.calls
        assert sorted(system.rows(ca_file=str(certified / "authority.pem"))) == expected()
        (tmp_path / "no.pem").write_text("no certificate")
        assert "source.ca_file" in system.refusal(ca_file="no.pem")
        assert "source.ca_file" in system.refusal(ca_file="gone.pem")


def test_a_secret_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, source, secret = redcap()
    monkeypatch.setenv("HOSPITAL_TOKEN", secret)
    del source["token_file"]
    with server:
        system = System(server, {**source, "token_env": "HOSPITAL_TOKEN"}, secret, 4, tmp_path)
        assert sorted(system.rows()) == expected()
        monkeypatch.delenv("HOSPITAL_TOKEN")
        assert "HOSPITAL_TOKEN" in system.refusal()


def test_a_user_who_may_not_read_is_told_apart(tmp_path: Path) -> None:
    server, source, secret = openspecimen()
    server.users["reader"] = User(secret, queries=False)
    with server:
        system = System(server, source, written(tmp_path, secret), 2, tmp_path)
        assert "may not read queries" in system.refusal()

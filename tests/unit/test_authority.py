"""The authority that certifies sites, and `thebes ca`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.support.coordinator import HandClock
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.site_certificates import SiteCertificate
from thebes.coordinator.clock import SystemClock
from thebes.privacy.faults import Mistake
from thebes.testing.command import typed
from thebes.wire.link import SERVER_NAME
from thebes.wire.refusals import NotFound


@pytest.fixture
def clock() -> HandClock:
    return HandClock(datetime.now(UTC).replace(microsecond=0))


@pytest.fixture
def authority(tmp_path: Path, clock: HandClock) -> CertificateAuthority:
    return CertificateAuthority(tmp_path, clock)


def shown(folder: Path) -> bytes:
    return (folder / "link" / "site.pem").read_bytes()


def test_what_is_issued_names_the_site_is_for_clients_and_matches_its_key(
    authority: CertificateAuthority, tmp_path: Path, clock: HandClock
) -> None:
    issued = authority.issue("north.west-1", tmp_path / "site")
    certificate = x509.load_pem_x509_certificate(shown(tmp_path / "site"))
    ca = x509.load_pem_x509_certificate((tmp_path / "site" / "link" / "ca.pem").read_bytes())
    key = serialization.load_pem_private_key((tmp_path / "site" / "link" / "site.key").read_bytes(), None)
    certificate.verify_directly_issued_by(ca)
    assert key.public_key() == certificate.public_key()
    extensions = certificate.extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.UniformResourceIdentifier("thebes://site/north.west-1")]
    usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.not_valid_after_utc == issued.ends == clock.now() + timedelta(days=30)
    assert certificate.not_valid_before_utc < clock.now()
    assert authority.examine(shown(tmp_path / "site")) == issued


def test_secrets_are_their_owner_s_alone(authority: CertificateAuthority, tmp_path: Path) -> None:
    authority.issue("north", tmp_path / "site")
    authority.hub([])
    for secret in ("ca/authority.key", "ca/hub.pem", "site/link/site.key"):
        assert stat.S_IMODE((tmp_path / secret).stat().st_mode) == 0o600
    for folder in ("ca", "site", "site/link"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["local", "", "North", "a b", "a/b", "..", "-a", "a" * 64, "ä", "a\n"])
def test_a_name_that_is_none_is_refused_and_leaves_nothing(
    authority: CertificateAuthority, tmp_path: Path, name: str
) -> None:
    with pytest.raises(Mistake) as refused:
        authority.issue(name, tmp_path / "site")
    assert refused.value.argument == "NAME"
    assert not (tmp_path / "site").exists()
    assert authority.certificates() == {}


@pytest.mark.parametrize("days", [0, -1, 367])
def test_a_certificate_lives_for_a_year_at_most(authority: CertificateAuthority, tmp_path: Path, days: int) -> None:
    with pytest.raises(Mistake, match="--days"):
        authority.issue("north", tmp_path / "site", days=days)


def test_renewing_lets_the_old_one_count_until_it_ends_and_revoking_ends_all(
    authority: CertificateAuthority, tmp_path: Path, clock: HandClock
) -> None:
    authority.issue("north", tmp_path / "old", days=2)
    authority.issue("north", tmp_path / "new")
    authority.issue("south", tmp_path / "south")
    assert all(isinstance(authority.examine(shown(tmp_path / each)), SiteCertificate) for each in ("old", "new"))
    clock.move(days=2)
    assert authority.examine(shown(tmp_path / "old"))[0] == "expired"  # type: ignore[index]
    assert not authority.revoked("north")
    assert authority.revoke("north") == 1
    for each in ("old", "new"):
        found = authority.examine(shown(tmp_path / each))
        assert isinstance(found, tuple)
    assert authority.examine(shown(tmp_path / "new"))[0] == "revoked"  # type: ignore[index]
    assert isinstance(authority.examine(shown(tmp_path / "south")), SiteCertificate)
    assert authority.revoked("north")
    assert authority.sites() == {"north": False, "south": True}
    assert authority.revoke("north") == 0
    with pytest.raises(NotFound):
        authority.revoke("west")
    authority.issue("north", tmp_path / "third")
    assert not authority.revoked("north")
    assert authority.sites()["north"]


def test_what_another_process_changed_counts_at_once(tmp_path: Path, clock: HandClock) -> None:
    one, other = CertificateAuthority(tmp_path, clock), CertificateAuthority(tmp_path, clock)
    one.issue("north", tmp_path / "north")
    assert isinstance(other.examine(shown(tmp_path / "north")), SiteCertificate)
    one.revoke("north")
    assert other.examine(shown(tmp_path / "north"))[0] == "revoked"  # type: ignore[index]


def test_a_certificate_of_somebody_else_s_register_is_unknown(tmp_path: Path, clock: HandClock) -> None:
    one, other = CertificateAuthority(tmp_path / "one", clock), CertificateAuthority(tmp_path / "other", clock)
    for each in (one, other):
        each.folder.parent.mkdir()
    one.issue("north", tmp_path / "north")
    for shows in (shown(tmp_path / "north"), other.hub([]).certificate, b"", b"nonsense"):
        found = other.examine(shows)
        assert isinstance(found, tuple)
        assert found[0] == "unknown"


def test_a_certificate_that_names_another_site_than_the_register_counts_for_neither(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    authority.issue("north", tmp_path / "north")
    register = authority.folder / "register.json"
    register.write_text(register.read_text().replace('"north"', '"south"'))
    found = authority.examine(shown(tmp_path / "north"))
    assert isinstance(found, tuple)
    assert found[0] == "unknown"


def test_the_port_s_certificate_has_every_name_and_is_renewed_when_it_must(tmp_path: Path, clock: HandClock) -> None:
    authority = CertificateAuthority(tmp_path, clock)
    first = authority.hub(["0.0.0.0", "thebes.example.org"])
    certificate = x509.load_pem_x509_certificate(first.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {SERVER_NAME, "localhost", "thebes.example.org"} <= set(names.get_values_for_type(x509.DNSName))
    addresses = set(names.get_values_for_type(x509.IPAddress))
    assert {ip_address("127.0.0.1"), ip_address("::1"), ip_address("0.0.0.0")} <= addresses
    assert authority.hub(["thebes.example.org"]) == first
    assert authority.hub(["another.example.org"]) != first
    again = authority.hub([])
    clock.move(days=21)
    renewed = authority.hub([])
    assert renewed != again
    x509.load_pem_x509_certificate(renewed.certificate).verify_directly_issued_by(
        x509.load_pem_x509_certificate(renewed.authority)
    )


def test_a_crash_while_writing_leaves_the_old_file(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.issue("north", tmp_path / "north")
    before = (authority.folder / "register.json").read_bytes()

    def broken(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="no space left"):
        authority.issue("south", tmp_path / "south")
    assert (authority.folder / "register.json").read_bytes() == before
    assert sorted(each.name for each in authority.folder.iterdir()) == [
        "authority.key",
        "authority.pem",
        "lock",
        "register.json",
    ]


def test_several_processes_issue_at_once_and_none_is_lost(tmp_path: Path) -> None:
    issue = (
        "import sys; from pathlib import Path; from thebes.coordinator.auth.authority import CertificateAuthority; "
        "from thebes.coordinator.clock import SystemClock; home, name = Path(sys.argv[1]), sys.argv[2]; "
        "[CertificateAuthority(home, SystemClock()).issue(f'{name}-{n}', home / f'{name}-{n}') for n in range(5)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", issue, str(tmp_path), name]) for name in ("a", "b", "c")]
    assert [each.wait(timeout=60) for each in running] == [0, 0, 0]
    authority = CertificateAuthority(tmp_path, SystemClock())
    assert len(authority.certificates()) == 15
    sites = [f"{name}-{n}" for name in ("a", "b", "c") for n in range(5)]
    assert all(isinstance(authority.examine(shown(tmp_path / site)), SiteCertificate) for site in sites)


def ca(*arguments: str) -> subprocess.CompletedProcess[str]:
    return typed("ca", *arguments)


def test_the_command_makes_issues_lists_and_revokes(tmp_path: Path) -> None:
    home = ("--home", str(tmp_path))
    made, again = ca("init", *home), ca("init", *home)
    assert (made.returncode, again.returncode) == (0, 0)
    assert (
        made.stdout.split()[-1] == again.stdout.split()[-1] == CertificateAuthority(tmp_path, SystemClock()).fingerprint
    )
    assert ca("list", *home).stdout.startswith("No site has a certificate yet")
    issued = ca("issue", "north", *home, "--out", str(tmp_path / "north"), "--days", "3")
    assert issued.returncode == 0
    assert "north until " in issued.stdout
    (told,) = json.loads(ca("list", *home, "--json").stdout)
    assert (told["site"], told["state"]) == ("north", "valid")
    assert ca("revoke", "north", *home).stdout == "1 certificate of north is no longer valid.\n"
    assert "north  revoked" in ca("list", *home).stdout
    for wrong, status in (
        (("issue", "local", *home, "--out", str(tmp_path / "x")), 2),
        (("revoke", "nobody", *home), 2),
        (("list", "--home", str(tmp_path / "nowhere")), 2),
    ):
        refused = ca(*wrong)
        assert (refused.returncode, refused.stdout) == (status, "")
        assert refused.stderr.startswith("thebes: ")

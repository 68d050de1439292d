"""Another authority for sites in the place of the one before: both count until the old one is ended."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.coordinator import Front, HandClock
from tests.support.site_home import site_home
from thebes.cli.homes import copy as copying
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import HomeFinding, How
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.site_certificates import SiteCertificate
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.privacy.faults import Mistake, Refusal
from thebes.testing.command import typed


class Killed(BaseException):
    """Stands where a process ended."""


@pytest.fixture
def clock() -> HandClock:
    return HandClock(datetime.now(UTC).replace(microsecond=0))


@pytest.fixture
def authority(tmp_path: Path, clock: HandClock) -> CertificateAuthority:
    """With a site `north` that came with its certificate."""
    made = CertificateAuthority(tmp_path, clock)
    made.came(made.issue("north", tmp_path / "north").serial)
    return made


def link(authority: CertificateAuthority, site: str, name: str) -> bytes:
    return (authority.folder.parent / site / "link" / name).read_bytes()


def shown(authority: CertificateAuthority, site: str) -> SiteCertificate | tuple[str, str]:
    return authority.examine(link(authority, site, "site.pem"))


def believes(authority: CertificateAuthority, site: str) -> bool:
    """Return whether the site, with what lies in its `link/`, takes the port for the coordinator's."""
    port = x509.load_pem_x509_certificate(authority.hub([]).certificate)
    for by in x509.load_pem_x509_certificates(link(authority, site, "ca.pem")):
        try:
            port.verify_directly_issued_by(by)
        except ValueError:
            continue
        return True
    return False


def files(authority: CertificateAuthority) -> set[str]:
    return {each.name for each in authority.folder.iterdir() if each.name.startswith("authority")}


def test_while_both_count_sites_of_either_are_let_in_and_take_the_port_for_the_coordinator_s(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    first = authority.fingerprint
    assert authority.rotate()
    assert authority.fingerprint != first
    authority.issue("south", tmp_path / "south")
    for site in ("north", "south"):
        assert isinstance(shown(authority, site), SiteCertificate)
        assert believes(authority, site)
    believed = x509.load_pem_x509_certificates(authority.hub([]).authority)
    assert believed == x509.load_pem_x509_certificates(link(authority, "south", "ca.pem"))
    assert len(believed) == 2
    assert len({each.subject for each in believed}) == 2
    assert [each.fingerprint(hashes.SHA256()).hex() for each in believed] == [authority.fingerprint, first]
    for key in authority.folder.glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_begun_twice_there_are_two_and_without_one_there_is_nothing_to_begin(
    authority: CertificateAuthority, tmp_path: Path, clock: HandClock
) -> None:
    assert authority.rotate()
    before = authority.fingerprint
    assert not authority.rotate()
    assert (authority.fingerprint, len(authority.signers())) == (before, 2)
    none = CertificateAuthority(tmp_path / "none", clock)
    (tmp_path / "none").mkdir()
    for work in (none.rotate, none.end_old):
        with pytest.raises(Mistake, match="thebes ca init"):
            work()


def test_the_old_one_ends_once_every_site_has_come_with_a_certificate_of_the_new(
    authority: CertificateAuthority, tmp_path: Path, clock: HandClock
) -> None:
    authority.issue("south", tmp_path / "south")
    authority.issue("gone", tmp_path / "gone", days=1)
    clock.move(days=1)  # it has ended, and keeps nobody waiting
    authority.rotate()
    authority.issue("west", tmp_path / "west")  # it had none of the old authority, and loses nothing
    assert authority.behind() == ["north", "south"]
    renewed = authority.issue("north", tmp_path / "north")
    with pytest.raises(Refusal, match="north, south would be shut out"):
        authority.end_old()
    authority.came(renewed.serial)
    with pytest.raises(Refusal, match=r"^south would be shut out"):
        authority.end_old()
    assert len(authority.signers()) == 2
    authority.came(authority.issue("south", tmp_path / "south").serial)
    assert authority.behind() == []
    assert authority.end_old()
    assert files(authority) == {"authority-2.pem", "authority-2.key"}
    for site in ("north", "south", "west"):
        assert isinstance(shown(authority, site), SiteCertificate)
        assert believes(authority, site)
    authority.issue("new", tmp_path / "new")
    assert len(x509.load_pem_x509_certificates(link(authority, "new", "ca.pem"))) == 1
    assert len(x509.load_pem_x509_certificates(authority.hub([]).authority)) == 1
    assert not authority.end_old()
    assert authority.rotate()
    assert files(authority) == {f"authority-{n}.{kind}" for n in (2, 3) for kind in ("pem", "key")}


def test_ended_anyway_a_site_left_behind_is_shut_out_until_it_has_a_new_link(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    authority.rotate()
    assert authority.end_old(anyway=True)
    found = shown(authority, "north")
    assert isinstance(found, tuple)
    assert found[0] == "expired"
    assert not believes(authority, "north")
    assert not authority.revoked("north")  # it is a site still
    ends = authority.ends("north")
    assert ends is not None
    assert ends <= datetime.now(UTC)
    authority.issue("north", tmp_path / "north")
    assert isinstance(shown(authority, "north"), SiteCertificate)
    assert believes(authority, "north")


def test_revoking_takes_the_certificates_of_both(authority: CertificateAuthority, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "link").mkdir()
    (tmp_path / "old" / "link" / "site.pem").write_bytes(link(authority, "north", "site.pem"))
    authority.rotate()
    authority.issue("north", tmp_path / "north")
    assert authority.revoke("north") == 2
    for which in ("old", "north"):
        found = shown(authority, which)
        assert isinstance(found, tuple)
        assert found[0] == "revoked"
    assert authority.behind() == []


@pytest.mark.parametrize("by", [1, 2])
def test_a_serial_number_counts_under_the_authority_that_issued_it_only(
    authority: CertificateAuthority, tmp_path: Path, by: int
) -> None:
    """Whoever has one authority's key signs a certificate that says what one of the other's says."""
    authority.rotate()
    authority.issue("south", tmp_path / "south")
    thief, site = authority.signers()[by - 1], {1: "south", 2: "north"}[by]
    signing = serialization.load_pem_private_key(thief.key_file.read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    copied = x509.load_pem_x509_certificate(link(authority, site, "site.pem"))
    names = copied.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    def forged(issuer: x509.Name, serial: int) -> bytes:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)]))
            .issuer_name(issuer)
            .public_key(ec.generate_private_key(ec.SECP256R1()).public_key())
            .serial_number(serial)
            .not_valid_before(copied.not_valid_before_utc)
            .not_valid_after(copied.not_valid_after_utc)
            .add_extension(names, critical=False)
            .sign(signing, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    for issuer in (thief.certificate.subject, copied.issuer):
        found = authority.examine(forged(issuer, copied.serial_number))
        assert isinstance(found, tuple)
        assert found[0] == "unknown"
    assert isinstance(shown(authority, site), SiteCertificate)


def _dying(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The process ends before the change of a folder with this number; never, where there are not so many. What is
    removed where it may be gone already changes nothing."""
    left = [at]

    def before(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*told: Any, **how: Any) -> Any:
            if how.get("missing_ok"):
                return change(*told, **how)
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return change(*told, **how)

        return changed

    monkeypatch.setattr(os, "replace", before(os.replace))
    monkeypatch.setattr(Path, "unlink", before(Path.unlink))


@pytest.mark.parametrize("at", range(3))
def test_killed_while_it_begins_the_same_again_does_the_rest(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    with monkeypatch.context() as dying:
        _dying(dying, at)
        died = at < 2
        try:
            authority.rotate()
        except Killed:
            assert died
        else:
            assert not died
    assert isinstance(shown(authority, "north"), SiteCertificate)
    assert believes(authority, "north")
    authority.issue("south", tmp_path / "south")
    assert believes(authority, "south")
    assert authority.rotate() is died
    assert files(authority) == {f"{name}.{kind}" for name in ("authority", "authority-2") for kind in ("pem", "key")}
    authority.came(authority.issue("north", tmp_path / "north").serial)
    assert believes(authority, "north")


@pytest.mark.parametrize("at", range(4))
def test_killed_while_the_old_one_ends_the_same_again_does_the_rest(
    authority: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    authority.issue("south", tmp_path / "south")
    authority.rotate()
    authority.came(authority.issue("north", tmp_path / "north").serial)
    with monkeypatch.context() as dying:
        _dying(dying, at)
        try:
            authority.end_old(anyway=True)
        except Killed:
            assert at < 3
        else:
            assert at == 3
    assert isinstance(shown(authority, "north"), SiteCertificate)
    assert believes(authority, "north")
    assert isinstance(shown(authority, "south"), SiteCertificate) is (at == 0)
    authority.end_old(anyway=at == 0)
    assert files(authority) == {"authority-2.pem", "authority-2.key"}
    assert isinstance(shown(authority, "north"), SiteCertificate)
    assert believes(authority, "north")
    assert isinstance(shown(authority, "south"), tuple)


def test_a_register_of_an_earlier_version_goes_on_and_its_sites_are_of_the_old_authority(
    authority: CertificateAuthority, tmp_path: Path, clock: HandClock
) -> None:
    register = authority.folder / "register.json"
    told = json.loads(register.read_text())
    for each in told.values():
        del each["signer"], each["came"]
    register.write_text(json.dumps(told))
    again = CertificateAuthority(tmp_path, clock)
    assert isinstance(shown(again, "north"), SiteCertificate)
    again.rotate()
    assert isinstance(shown(again, "north"), SiteCertificate)
    assert again.behind() == ["north"]


def test_a_copy_has_both(tmp_path: Path) -> None:
    home = tmp_path / "home"
    CoordinatorHome(home)
    authority = CertificateAuthority(home, SystemClock())
    authority.issue("north", tmp_path / "north")
    authority.rotate()
    authority.issue("south", tmp_path / "south")
    copying.backup(home, tmp_path / "copy", passphrase=None)
    copying.restore(tmp_path / "copy", tmp_path / "back", passphrase=None)
    back = CertificateAuthority(tmp_path / "back", SystemClock())
    assert back.behind() == ["north"]
    for site in ("north", "south"):
        assert isinstance(back.examine((tmp_path / site / "link" / "site.pem").read_bytes()), SiteCertificate)
    assert back.end_old(anyway=True)


# --- commands and doctor ----------------------------------------------------------------------------------------


def ca(*arguments: str) -> subprocess.CompletedProcess[str]:
    return typed("ca", *arguments)


@pytest.mark.slow
def test_the_commands_begin_tell_and_end(tmp_path: Path) -> None:
    CoordinatorHome(tmp_path / "home")
    home = ("--home", str(tmp_path / "home"))
    assert "thebes ca init" in typed("rotate", "ca", *home).stderr
    ca("issue", "north", *home, "--out", str(tmp_path / "north"))
    assert "authority" not in ca("list", *home).stdout
    begun, again = typed("rotate", "ca", *home), typed("rotate", "ca", *home)
    authority = CertificateAuthority(tmp_path / "home", SystemClock())
    assert (begun.returncode, again.returncode) == (0, 0)
    assert begun.stdout.startswith(f"Another authority for sites has begun: SHA-256 {authority.fingerprint}\n")
    assert again.stdout.startswith(f"Another authority for sites had begun already: SHA-256 {authority.fingerprint}\n")
    assert "  old authority\nTwo authorities are valid. Not yet come with" in ca("list", *home).stdout
    refused = ca("end-old", *home)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("thebes: north would be shut out")
    ca("issue", "north", *home, "--out", str(tmp_path / "north"))
    listed = ca("list", *home).stdout
    assert "  new authority  has not come yet\n" in listed
    assert listed.endswith(
        "Not yet come with a certificate of the new one: north. Bring each its link/: thebes ca issue NAME\n"
    )
    told = json.loads(ca("list", *home, "--json").stdout)
    assert [(each["site"], each["authority"], each["came"]) for each in told] == [
        ("north", 1, None),
        ("north", 2, None),
    ]
    authority.came(int(told[1]["serial"], 16))
    assert ca("list", *home).stdout.endswith("No site needs the old one: thebes ca end-old\n")
    ended, again = ca("end-old", *home), ca("end-old", *home)
    assert ended.stdout == f"The old authority has ended. The valid one: SHA-256 {authority.fingerprint}\n"
    assert again.stdout.startswith("There is no old authority. The valid one: SHA-256 ")
    typed("rotate", "ca", *home)
    assert ca("end-old", *home).returncode == 1
    assert ca("end-old", *home, "--anyway").returncode == 0


def _looked(home: Path, what: str, clock: HandClock) -> HomeFinding | None:
    said = list(examined(home, Surroundings(clock=lambda: clock.now().timestamp())))
    return next((each for each in said if what in each.what and each.how is not How.OK), None)


def test_doctor_tells_a_coordinator_which_sites_the_old_one_waits_for(tmp_path: Path, clock: HandClock) -> None:
    what, home = "one authority certifies the sites", tmp_path / "home"
    with Front(home, clock=clock):
        authority = CertificateAuthority(home, clock)
        authority.issue("north", tmp_path / "north")
        assert _looked(home, what, clock) is None
        authority.rotate()
        said = _looked(home, what, clock)
        assert said is not None
        assert said.how is How.WARNING
        assert said.advice.endswith("north must come with a certificate of the new one first: thebes ca issue NAME")
        authority.came(authority.issue("north", tmp_path / "north").serial)
        said = _looked(home, what, clock)
        assert said is not None
        assert said.advice.endswith("thebes ca end-old")
        (authority.folder / "authority-2.key").chmod(0o640)
        assert _looked(home, "for their owner only", clock) is not None
        (authority.folder / "authority-2.key").unlink()
        broken = _looked(home, "the authority's key is that of its certificate", clock)
        assert broken is not None
        assert broken.how is How.BROKEN


def test_doctor_tells_of_an_authority_s_end_in_time_to_begin_another(tmp_path: Path, clock: HandClock) -> None:
    home = tmp_path / "home"
    CoordinatorHome(home)
    CertificateAuthority(home, clock).init()
    ahead = HandClock(clock.now() + timedelta(days=3650 - 80))
    said = _looked(home, "authority.pem counts until", ahead)
    assert said is not None
    assert (said.how, "thebes rotate ca" in said.advice) == (How.WARNING, True)


def test_doctor_tells_a_site_that_it_believes_two_authorities(tmp_path: Path, clock: HandClock) -> None:
    home = site_home(tmp_path / "site").folder
    authority = CertificateAuthority(tmp_path / "home", clock)
    what = "the site believes one authority"
    authority.issue("north", home)
    assert _looked(home, what, clock) is None
    authority.rotate()
    authority.issue("north", home)
    said = _looked(home, what, clock)
    assert said is not None
    assert said.how is How.WARNING
    assert _looked(home, "the certificate is of the authority that the site believes", clock) is None
    authority.end_old(anyway=True)
    authority.issue("north", home)
    assert _looked(home, what, clock) is None

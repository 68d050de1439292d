"""The authority's key in a PKCS#11 token (SoftHSM): it is made there, signs there, and never comes out."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.command import exit_status
from tests.support.federation import CENSUS, Far, Gathering, counting
from tests.support.half_kinds import known
from tests.support.softhsm import MODULE, SoftToken
from thebes.cli.homes.findings import How
from thebes.cli.homes.identities import of_a_coordinator
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.hardware_key import HardwareKeyAway, KeyPlace
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.privacy.faults import Mistake
from thebes.wire.certificates import issued


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftToken]:
    made = SoftToken(tmp_path_factory.mktemp("hsm"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SOFTHSM2_CONF", str(made.config))
        yield made


def authority(home: Path) -> CertificateAuthority:
    home.mkdir(exist_ok=True)
    return CertificateAuthority(home, SystemClock())


def findings(home: Path) -> dict[str, How]:
    return {each.what: each.how for each in of_a_coordinator(home, datetime.now(UTC).timestamp())}


def test_the_key_is_made_in_the_token_and_the_home_says_only_where_it_is(token: SoftToken, tmp_path: Path) -> None:
    made = authority(tmp_path / "home")
    assert made.init(token.uri("first"))
    assert not made.init(token.uri("first")), "it is there"
    kept = (made.folder / "authority.key").read_text()
    assert kept == token.uri("first") + "\n"
    assert (made.folder / "authority.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in made.folder.glob("*.key")] == ["authority.key"]
    shown = token.objects()
    private = shown[shown.index("Private Key Object") :]
    assert "first" in private
    assert "sensitive" in private
    assert "extractable" not in private.replace("never extractable", "")
    (signer,) = made.signers()
    with pytest.raises(TypeError, match="not read out"):
        signer.key.private_numbers()


def test_what_it_signs_counts_for_openssl_and_for_us(token: SoftToken, tmp_path: Path) -> None:
    made = authority(tmp_path / "home")
    made.init(token.uri("signs"))
    made.issue("north", tmp_path / "north")
    link = tmp_path / "north" / "link"
    shown = x509.load_pem_x509_certificate((link / "site.pem").read_bytes())
    assert issued(shown, by=made.signers()[0].certificate)
    done = subprocess.run(
        ["openssl", "verify", "-CAfile", link / "ca.pem", link / "site.pem"], capture_output=True, text=True
    )
    assert done.stdout.endswith(": OK\n"), done.stderr
    assert (link / "site.key").read_text().startswith("-----BEGIN PRIVATE KEY-----"), "a site's key is a file"
    assert findings(tmp_path / "home")["the authority's key is that of its certificate"] is How.OK


def test_sites_link_to_a_coordinator_whose_authority_is_in_a_token(token: SoftToken, tmp_path: Path) -> None:
    authority(tmp_path / "home").init(token.uri("links"))

    async def scenario() -> None:
        async with asyncio.timeout(120):
            world = await Gathering(tmp_path / "home").open(0)
            authority(tmp_path / "home").issue("north", tmp_path / "north")
            link = Far(world.url, tmp_path / "north" / "link", counting(1, 2, 3))
            await world.known("north")
            assert (await world.asked(CENSUS))["result"]["value"] == 6.0
            await link.close()
            await world.close()

    with known("thebes.testing.census"):
        asyncio.run(scenario())


def test_an_authority_in_a_file_gives_way_to_one_in_a_token_and_that_to_another(
    token: SoftToken, tmp_path: Path
) -> None:
    made = authority(tmp_path / "home")
    made.init()
    assert made.rotate(token.uri("second"))
    assert made.end_old()
    assert [path.name for path in made.folder.glob("*.key")] == ["authority-2.key"]
    assert made.rotate(token.uri("third"))
    assert "second" in token.objects()
    assert made.end_old()
    assert "second" not in token.objects(), "with its end its key is destroyed, in the token too"
    assert "third" in token.objects()


def test_the_same_by_commands(token: SoftToken, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    Database(CoordinatorHome(home).store).close()
    assert exit_status("ca", "init", "--home", home, "--key", token.uri("command")) == 0
    assert exit_status("rotate", "ca", "--home", home, "--key", token.uri("command")) != 0
    assert "in the token already" in capsys.readouterr().err
    assert exit_status("rotate", "session.key", "--home", home, "--key", token.uri("x")) != 0
    assert exit_status("rotate", "ca", "--home", home, "--key", token.uri("command%20two")) == 0
    assert "command two" in token.objects()


def test_a_token_that_is_gone_for_good_keeps_no_authority_alive(
    token: SoftToken, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = authority(tmp_path / "home")
    made.init(token.uri("gone"))
    made.rotate()
    key = made.folder / "authority.key"
    key.write_text(token.uri("gone", token="burnt"))
    with pytest.raises(HardwareKeyAway, match="--anyway"):
        made.end_old()
    assert len(made.signers()) == 2, "the same again, once the token is back, ends it"
    assert exit_status("ca", "end-old", "--home", tmp_path / "home", "--anyway") == 0
    assert "destroy its key 'gone' there yourself" in capsys.readouterr().err
    assert [each.number for each in made.signers()] == [2]
    assert not key.exists()


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("pkcs11:token=thebes;object=a?module-path={module}&pin-value=4711", "must not hold the PIN"),
        ("pkcs11:token=thebes?module-path={module}&pin-source=/pin", "must be pkcs11:"),
        ("pkcs11:token=thebes;object=a?module-path={module}&pin-source=pin", "from / on"),
        ("pkcs11:token=thebes;object=a;id=%01?module-path={module}&pin-source=/pin", "must be pkcs11:"),
        ("file:token=thebes;object=a?module-path={module}&pin-source=/pin", "must be pkcs11:"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path: Path, uri: str, why: str) -> None:
    with pytest.raises(Mistake, match=why):
        KeyPlace.read(uri.format(module=MODULE))


def test_a_pin_that_others_can_read_opens_nothing(token: SoftToken, tmp_path: Path) -> None:
    made = authority(tmp_path / "home")
    for mode in (0o604, 0o640):
        token.pin_file.chmod(mode)
        try:
            with pytest.raises(HardwareKeyAway, match=r"others can read .*chmod 600"):
                made.init(token.uri("seen"))
        finally:
            token.pin_file.chmod(0o600)
    assert not made.exists
    assert "seen" not in token.objects()


def test_without_the_token_nothing_is_signed_nothing_changes_and_doctor_says_so(
    token: SoftToken, tmp_path: Path
) -> None:
    made = authority(tmp_path / "home")
    for wrong in (
        token.uri("never", token="other"),
        token.uri("never", module=tmp_path / "module.so"),
        token.uri("never").replace(str(token.pin_file), str(tmp_path / "no-pin")),
    ):
        with pytest.raises(HardwareKeyAway):
            made.init(wrong)
    assert not made.exists
    made.init(token.uri("away"))
    pin = token.pin_file.read_text()
    token.pin_file.write_text("0815\n")
    try:
        with pytest.raises(HardwareKeyAway, match="PinIncorrect"):
            made.issue("north", tmp_path / "north")
        assert made.certificates() == {}
        assert not (tmp_path / "north").exists()
        assert findings(tmp_path / "home")["the authority's key is that of its certificate"] is How.BROKEN
    finally:
        token.pin_file.write_text(pin)
    assert os.environ["SOFTHSM2_CONF"] == str(token.config)

"""Sites over real links: mutual TLS, certificates that count or not, slow and hostile readers, large messages."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.support.federation import (
    CENSUS,
    QUICK,
    Far,
    Gathering,
    Steward,
    contribution,
    counting,
)
from tests.support.half_kinds import known
from tests.support.memory_and_time import forget_peak, peak
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.sites.intervals import Pace
from thebes.privacy.faults import Mistake, Refusal
from thebes.wire.link import PATH, SERVER_NAME, pieces

EDGY = replace(QUICK, silence=6.0)  #: bears little silence
LONG = 60.0  #: seconds for what takes less than one on an idle machine


@pytest.fixture(autouse=True)
def _census() -> Iterator[None]:
    with known("thebes.testing.census"):
        yield


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 10 * LONG))


class Opened(Gathering):
    """With a port for sites and an authority that issues to sites beside it."""

    async def __aenter__(self) -> Opened:
        await self.open(0)
        self.authority = CertificateAuthority(self.home.folder, self.clock)
        self.fars: list[Far] = []
        return self

    async def __aexit__(self, *told: object) -> None:
        for far in self.fars:
            await far.close()
        await super().__aexit__(*told)

    def link(self, name: str, **how: Any) -> Path:
        self.authority.issue(name, self.home.folder.parent / name, **how)
        return self.home.folder.parent / name / "link"

    async def far(self, name: str, answer: Any, *, link: Path | None = None, wait: bool = True) -> Far:
        made = Far(self.url, link or self.link(name), answer)
        self.fars.append(made)
        if wait:
            await self.known(name)
        return made


async def until(condition: Any, seconds: float = LONG) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def never(_: dict[str, Any]) -> dict[str, Any] | None:
    await asyncio.sleep(3600)
    return None


def identity(
    folder: Path,
    site: str,
    *,
    uris: list[str] | None = None,
    own_authority: bool = False,
    life: timedelta = timedelta(days=1),
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> tuple[x509.Certificate, bytes, bytes]:
    """A certificate that `thebes ca issue` did not make: signed by the coordinator's authority, or by a stranger's."""
    home = folder if not own_authority else folder / "stranger"
    authority = CertificateAuthority(home, SystemClock())
    authority.init()
    signing = serialization.load_pem_private_key((home / "ca" / "authority.key").read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate((home / "ca" / "authority.pem").read_bytes())
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    names = [x509.UniformResourceIdentifier(uri) for uri in uris or [f"thebes://site/{site}"]]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + life) - timedelta(days=1))
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(False, None), True)
        .add_extension(x509.ExtendedKeyUsage([usage]), False)
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(signing, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return made, made.public_bytes(pem), key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def laid(folder: Path, home: Path, certificate: bytes, key: bytes) -> Path:
    folder.mkdir(parents=True)
    (folder / "site.pem").write_bytes(certificate)
    (folder / "site.key").write_bytes(key)
    (folder / "ca.pem").write_bytes((home / "ca" / "authority.pem").read_bytes())
    return folder


def test_sites_answer_over_their_links(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            await world.far("north", counting(1, 2, 3))
            await world.far("south", counting(10, 20, 30))
            done = await world.asked({**CENSUS, "rounds": 3})
            assert done["result"]["value"] == 198.0
            assert {site["state"] for site in await world.service.sites()} == {"connected"}

    run(scenario())


def test_a_site_is_who_its_certificate_says_and_nobody_else_comes_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            home = world.home.folder
            good = world.link("north")

            async def told(link: Path) -> tuple[str | None, list[str]]:
                far = await world.far("x", never, link=link, wait=False)
                await asyncio.wait_for(far.run, LONG)
                return far.status, [f"{word['code']}: {word['reason']}" for word in far.words]

            _, stranger, key = identity(home, "north", own_authority=True)
            assert await told(laid(tmp_path / "a", home, stranger, key)) == ("UNAVAILABLE", [])
            _, expired, key = identity(home, "north", life=timedelta(hours=-1))
            assert await told(laid(tmp_path / "b", home, expired, key)) == ("UNAVAILABLE", [])
            _, unknown, key = identity(home, "north")  # of our authority, and in no register
            status, words = await told(laid(tmp_path / "c", home, unknown, key))
            assert (status, len(words)) == ("PERMISSION_DENIED", 1)
            assert "unknown: the certificate is not one that this coordinator issued" in words[0]
            for n, uris in enumerate((["thebes://user/ana"], ["thebes://site/a", "thebes://site/b"], ["http://x"])):
                _, odd, key = identity(home, "north", uris=uris)
                assert (
                    "unknown: the certificate is not a site's"
                    in (await told(laid(tmp_path / f"d{n}", home, odd, key)))[1]
                )
            port = (home / "ca" / "hub.pem").read_bytes()
            assert (await told(laid(tmp_path / "e", home, port, port)))[0] in ("UNAVAILABLE", "PERMISSION_DENIED")
            assert world.federation.links.all() == []
            without = grpc.ssl_channel_credentials((good / "ca.pem").read_bytes())
            options = [("grpc.ssl_target_name_override", SERVER_NAME)]
            async with grpc.aio.secure_channel(world.url, without, options=options) as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await channel.stream_stream(PATH)().read()
            async with grpc.aio.insecure_channel(world.url) as channel:
                with pytest.raises(grpc.aio.AioRpcError):
                    await channel.stream_stream(PATH)().read()
            await world.far("north", counting(1, 2, 3), link=good)
            assert (await world.asked(CENSUS))["result"]["value"] == 6.0

    run(scenario())


def test_a_revoked_site_is_cut_within_a_second_told_why_and_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Pace().check <= 1  # a second of the coordinator's own pace: at its next look
    cut: list[bool] = []

    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            link = world.link("north")
            north = await world.far("north", never, link=link, wait=False)
            await until(lambda: world.links.of("north"))
            hub: Any = world.federation._hub
            look_at = hub._look_at

            def look(session: Any, now: float, *, due: bool) -> None:
                look_at(session, now, due=due)
                cut.append(session.why is not None)

            monkeypatch.setattr(hub, "_look_at", look)
            await until(lambda: cut)
            assert not any(cut)
            cut.clear()
            world.authority.revoke("north")
            await asyncio.wait_for(north.run, LONG)
            assert cut[0]
            assert north.status == "PERMISSION_DENIED"
            assert [word["code"] for word in north.words] == ["revoked"]
            assert "the certificate of the site north was revoked" in north.words[0]["reason"]
            came, put = [], world.links.put
            monkeypatch.setattr(
                world.links, "put", lambda conversation: [came.append(conversation.site), put(conversation)]
            )
            again = await world.far("north", never, link=link, wait=False)
            await asyncio.wait_for(again.run, LONG)
            assert [word["code"] for word in again.words] == ["revoked"]
            assert came == []  # not even for a moment
            await until(lambda: world.service.inquiries.sites()[0]["state"] == "revoked")
            await world.far("north", counting(1, 2, 3))  # a new certificate
            assert came == ["north"]
            assert (await world.asked(CENSUS))["result"]["value"] == 6.0

    run(scenario())


def test_a_certificate_that_ends_while_its_site_is_linked_ends_the_link(tmp_path: Path) -> None:
    class Ahead(SystemClock):
        by = timedelta()

        def now(self) -> datetime:
            return super().now() + self.by

    async def scenario() -> None:
        clock = Ahead()
        async with Opened(tmp_path / "home", clock=clock) as world:
            north = await world.far("north", counting(1, 2, 3))
            clock.by = timedelta(days=31)
            await asyncio.wait_for(north.run, LONG)
            assert (north.status, north.words[0]["code"]) == ("PERMISSION_DENIED", "expired")

    run(scenario())


def test_the_newest_link_of_a_site_counts_and_the_older_one_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            link = world.link("north")
            old = await world.far("north", counting(1, 2, 3), link=link)
            await world.far("north", counting(10, 20, 30), link=link)
            await asyncio.wait_for(old.run, LONG)
            assert (old.status, old.words[0]["code"]) == ("UNAVAILABLE", "replaced")
            assert (await world.asked(CENSUS))["result"]["value"] == 60.0

    run(scenario())


def test_an_authority_and_a_port_with_new_certificates_need_no_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            ca = world.home.folder / "ca"
            await world.far("north", counting(1, 2, 3))
            before = (ca / "hub.pem").read_bytes()
            (ca / "hub.pem").unlink()
            await world.far("south", counting(10, 20, 30))
            assert (ca / "hub.pem").read_bytes() != before
            for name in ("authority.key", "authority.pem", "hub.pem"):
                (ca / name).unlink()
            old = world.home.folder.parent / "south" / "link"
            (world.home.folder.parent / "old").mkdir()
            kept = (
                laid(
                    world.home.folder.parent / "old" / "link",
                    world.home.folder,
                    *[(old / name).read_bytes() for name in ("site.pem", "site.key")],
                )
                if world.authority.init()
                else old
            )
            turned_away = await world.far("south", never, link=kept, wait=False)
            await asyncio.wait_for(turned_away.run, LONG)
            assert turned_away.status == "UNAVAILABLE"  # of an authority that is believed no more
            await world.far("west", counting(100, 0, 0))
            assert (await world.asked({**CENSUS, "sites": ["north", "west"]}))["result"]["value"] == 106.0

    run(scenario())


def test_another_authority_takes_the_place_of_the_one_before_and_no_site_that_follows_notices(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            south_s = world.link("south")
            south = await world.far("south", counting(10, 20, 30), link=south_s)
            north = await world.far("north", counting(1, 2, 3))
            world.authority.rotate()
            assert (await world.asked(CENSUS))["result"]["value"] == 66.0  # nobody was cut
            await world.far("south", counting(10, 20, 30), link=south_s)  # nor are those kept out that knew the old one
            await asyncio.wait_for(south.run, LONG)
            assert world.authority.behind() == ["north", "south"]
            north_s = world.link("north")
            newer = await world.far("north", counting(1, 2, 3), link=north_s)
            await asyncio.wait_for(north.run, LONG)
            assert north.words[0]["code"] == "replaced"
            await until(lambda: world.authority.behind() == ["south"])
            assert (await world.asked(CENSUS))["result"]["value"] == 66.0
            with pytest.raises(Refusal, match="south would be shut out"):
                world.authority.end_old()
            assert (await world.asked(CENSUS))["result"]["value"] == 66.0
            left = world.fars[-2]
            world.authority.end_old(anyway=True)
            await asyncio.wait_for(left.run, LONG)
            assert (left.status, left.words[0]["code"]) == ("PERMISSION_DENIED", "expired")
            again = await world.far("south", never, link=south_s, wait=False)
            await asyncio.wait_for(again.run, LONG)
            assert again.status == "UNAVAILABLE"  # it does not believe the port any more, nor the port it
            assert (await world.asked({**CENSUS, "sites": ["north"]}))["result"]["value"] == 6.0
            assert not newer.run.done()  # the same link as before the end
            await world.far("north", counting(1, 2, 3), link=north_s)  # with the same `link/`, to the port's new one
            await asyncio.wait_for(newer.run, LONG)
            await world.far("south", counting(10, 20, 30))  # a new `link/`
            assert (await world.asked(CENSUS))["result"]["value"] == 66.0

    run(scenario())


@pytest.mark.slow
def test_a_hundred_megabytes_go_both_ways_beside_small_talk(tmp_path: Path) -> None:
    size = 2**24 - 1  # float32 numbers: 64 MB

    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            ones = np.frombuffer(np.ones(size, dtype="<f4").tobytes(), dtype=np.uint8)
            steward = Steward(lambda ask: contribution(ask, {"numbers": ones}))
            await world.far("north", steward)
            await world.far("south", counting(1, 2, 3))
            task = await world.post(
                {**CENSUS, "size": size, "packed": True, "rounds": 2, "sites": ["north"], "patience": 300}
            )
            answered, status = 0, "open"
            while status == "open":
                small = await world.asked({**CENSUS, "sites": ["south"]})
                assert small["result"]["value"] == 6.0
                status = (await world.service.task(task))[0]["status"]
                answered += status == "open"
            ended = await world.over(task, seconds=300)
            assert ended["result"]["value"] == 2.0 * size
            assert len(steward.asks[1]["payload"]["so_far"]) == size  # 128 MB down
            assert answered >= 5  # one after another, while all that went by

    run(scenario())


@pytest.mark.slow
def test_a_site_that_reads_nothing_costs_little_memory_and_no_time_of_the_others(tmp_path: Path) -> None:
    size = 2**23  # 64 MB down in each ask of a later phase

    async def scenario() -> None:
        async with Opened(tmp_path / "home", pace=replace(QUICK, silence=300.0, ping=5.0)) as world:
            ones = np.frombuffer(np.ones(size, dtype="<f4").tobytes(), dtype=np.uint8)
            steward = Steward(lambda ask: contribution(ask, {"numbers": ones}))
            south = await world.far("south", steward)
            await world.far("north", counting(1, 2, 3))
            south.paused_after = 1  # it answers the first phase, and reads nothing from then on
            document = {**CENSUS, "size": size, "packed": True, "rounds": 2, "sites": ["south"], "patience": 30.0}
            tasks = [await world.post({**document, "name": str(n)}) for n in range(3)]
            await until(lambda: south.paused)
            forget_peak()
            before = peak()
            for _ in range(5):
                assert (await world.asked({**CENSUS, "sites": ["north"]}))["result"]["value"] == 6.0
            # Nobody waited for the one that does not read: each of its tasks is still waited for.
            assert {(await world.service.task(task))[0]["status"] for task in tasks} == {"open"}
            done = [await world.over(task, seconds=240) for task in tasks]
            assert {each["status"] for each in done} == {"expired"}
            # Millions of bytes: totals and copies of three tasks, not what would lie before a reader who does not read.
            assert peak() - before < 700

    run(scenario())


@pytest.mark.slow
def test_a_site_that_is_silent_is_cut_and_one_that_answers_pings_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thebes.coordinator")

    async def scenario() -> None:
        async with Opened(tmp_path / "home", pace=EDGY) as world:
            await world.far("north", counting(1, 2, 3))
            mute = await world.far("south", never, wait=False)
            await until(lambda: world.links.of("south"))
            await asyncio.wait_for(mute.run, LONG)
            assert (mute.status, mute.words[0]["code"]) == ("UNAVAILABLE", "silent")
            await asyncio.sleep(1.5 * EDGY.silence)
            assert [each.site for each in world.links.all()] == ["north"]

    run(scenario())
    assert "site south: no longer linked" in caplog.text
    assert "nobody waits for" not in caplog.text  # that is said of answers, and not every few seconds of every site


@pytest.mark.slow
def test_a_half_open_link_is_noticed(tmp_path: Path) -> None:
    """Between the site and the port lies something that stops passing bytes on and closes nothing."""

    async def scenario() -> None:
        async with Opened(tmp_path / "home", pace=EDGY) as world:
            host, port = world.url.split(":")
            passing, pumps = asyncio.Event(), list[asyncio.Task[None]]()
            passing.set()

            async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                while data := await reader.read(65536):
                    await passing.wait()
                    writer.write(data)
                    await writer.drain()

            async def middle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, back = await asyncio.open_connection(host, int(port))
                pumps.extend([asyncio.create_task(pump(reader, back)), asyncio.create_task(pump(there, writer))])

            server = await asyncio.start_server(middle, "127.0.0.1", 0)
            link = world.link("north")
            far = Far(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", link, counting(1, 2, 3))
            world.fars.append(far)
            await world.known("north")
            passing.clear()
            began = time.monotonic()
            await until(lambda: world.links.of("north") is None)
            assert time.monotonic() - began > EDGY.silence * 0.5  # by its silence, and by nothing that was closed
            for each in pumps:
                each.cancel()
            server.close()

    run(scenario())


@pytest.mark.slow
def test_bytes_that_are_no_message_end_the_link_and_touch_nothing_else(tmp_path: Path) -> None:
    garbage = [b"", b"x", bytes(1000), b"THL1" + bytes(100), bytes(2**20 + 500)]
    names = [f"south-{number}" for number in range(len(garbage))]

    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            north = await world.far("north", counting(1, 2, 3))
            souths = [await world.far(name, Steward(never)) for name in names]
            task = await world.post({**CENSUS, "patience": 15.0})
            await asyncio.gather(*(south.send(sent) for south, sent in zip(souths, garbage, strict=True)))
            for south in souths:
                await asyncio.wait_for(south.run, LONG)
                assert south.status in ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL")  # the last: just as it spoke
            done = await world.over(task)
            assert done["result"]["value"] == 6.0
            assert {*done["result"]["missing"]} == {*names}
            for why in done["result"]["missing"].values():
                assert why.startswith(("is not linked", "was cut off and did not come back"))
            assert not north.run.done()

    run(scenario())


def test_an_answer_that_is_longer_than_it_can_be_is_skipped_and_the_link_stays(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            much = np.arange(2**21, dtype=np.int64)

            def answer(ask: dict[str, Any]) -> dict[str, Any]:
                return contribution(ask, {"numbers": much if ask["document"].get("name") == "lie" else [1, 2, 3]})

            south = await world.far("south", Steward(answer))
            await world.far("north", counting(1, 2, 3))
            done = await world.asked({**CENSUS, "name": "lie"})
            assert done["result"]["value"] == 6.0
            assert "sent what cannot be read: a message has more than the" in done["result"]["missing"]["south"]
            assert (await world.asked(CENSUS))["result"]["value"] == 12.0
            assert not south.run.done()

    run(scenario())


def test_messages_that_nobody_asked_for_and_answers_sent_twice_are_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            sent: list[dict[str, Any]] = []

            async def twice(message: dict[str, Any]) -> dict[str, Any] | None:
                answer = await steward(message)
                if answer is not None and message["kind"] == "ask":
                    sent.append({**answer, "id": message["id"]})
                    await north.say(sent[-1])
                return answer

            steward = counting(1, 2, 3)
            north = await world.far("north", twice)
            assert (await world.asked({**CENSUS, "rounds": 3}))["result"]["value"] == 18.0
            await north.say(sent[0])  # from long ago
            for piece in pieces("nobody asked", bytes(3 * 2**20)):
                await north.send(piece)
            assert (await world.asked(CENSUS))["result"]["value"] == 6.0
            assert not north.run.done()

    run(scenario())


def test_a_port_that_is_taken_is_refused_in_words(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Opened(tmp_path / "home") as world:
            other = Gathering(tmp_path / "other")
            with pytest.raises(Mistake, match=r"cannot listen on 127\.0\.0\.1"):
                await other.open(int(world.url.split(":")[1]))
            other.service.close()
            other.database.close()

    run(scenario())

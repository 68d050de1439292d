"""A coordinator that gets no time for a while (a busy machine, one that swaps): its sites are not to blame for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.federation import CENSUS, QUICK, Far, Gathering, counting
from tests.support.half_kinds import known
from thebes.coordinator.auth.authority import CertificateAuthority


@pytest.mark.slow
def test_a_coordinator_that_stood_still_takes_its_own_silence_for_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumping:
        by = 0.0

        def monotonic(self) -> float:
            return time.monotonic() + self.by

    clock = Jumping()
    monkeypatch.setattr("thebes.coordinator.sites.link_server.time", clock)

    async def scenario() -> None:
        world = await Gathering(tmp_path / "home").open(0)
        CertificateAuthority(world.home.folder, world.clock).issue("north", tmp_path / "north")
        async with Far(world.url, tmp_path / "north" / "link", counting(1, 2, 3)) as north:
            await world.known("north")
            for _ in range(20):
                clock.by += 10 * QUICK.silence
                await asyncio.sleep(0.1)
            assert (await world.asked(CENSUS))["result"]["value"] == 6.0
            assert not north.run.done()
        await world.close()

    with known("thebes.testing.census"):
        asyncio.run(asyncio.wait_for(scenario(), 600))

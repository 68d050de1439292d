"""Three sites with real homes whose totals go to two servers, a coordinator's half and a helper: for tests."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.federation import Gathering, Near
from tests.support.site_home import AGES, EVERYBODY, site_home
from tests.support.split_helper import Ward
from thebes.data.schema import schema_of
from thebes.privacy.randomness import system
from thebes.site.algorithm_process import Office
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import context_at, shared_totals

HELPS = '[[help]]\nrequestors = ["*"]\nepsilon = 10\ndelta = 1e-4\nsites = true\n'
NAMES = ("north", "south", "west")
ASKED: dict[str, Any] = {
    "type": "query",
    "dataset": "patients",
    "statistic": "count",
    "epsilon": 1.0,
    "noise": "split",
    "helper": "ward",
    "patience": 20.0,
}


def allowing(helper: str) -> str:
    """Return the policy of a site that lets shares be sealed for the helper with this fingerprint."""
    rule = EVERYBODY.replace('"coordinator"', '"coordinator", "split"')
    return f'{rule}helpers = ["{helper}"]\n'


def answering(office: Office) -> Callable[[dict[str, Any]], Any]:
    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        return office.answer(message)

    return answer


class Hospitals:
    """Sites by name, each with 100 people; and the ward that helps, which has no rows."""

    def __init__(self, folder: Path, ward: Ward, *, policy: str | None = None, **more: Any) -> None:
        rule = allowing(ward.helper.fingerprint()) if policy is None else policy
        self.ward = ward
        self.offices = {name: Office(site_home(folder / name, policy=rule, **more), name) for name in NAMES}

    async def linked(self, coordinator: Gathering) -> dict[str, Near]:
        """Link all of them."""
        found = await coordinator.near(**{name: answering(office) for name, office in self.offices.items()})
        return {**found, "ward": Near(coordinator.links, "ward", self.ward)}

    def spent(self, name: str) -> float:
        return 10.0 - float(self.offices[name].ledger.remaining("patients").epsilon)


class Leader:
    """A coordinator that does what it likes with real shares."""

    def __init__(self, ward: Ward, asked: dict[str, Any] = ASKED, **more: Any) -> None:
        self.helper = ward.helper
        told = {**asked, "helper_key": ward.helper.fingerprint(), **more}
        self.document: Any = registry.check(told)
        opened = self.step("open", requestor="ana", document=self.document.as_json())
        self.key = bytes.fromhex(opened["helper_key"])

    def step(self, step: str, **more: Any) -> dict[str, Any]:
        return self.helper.step({"kind": "help", "step": step, "task": "t", **more})

    def share(
        self,
        total: int,
        schema: dict[str, Any] = AGES,
        task: str = "t",
        *,
        phase: int = 0,
        sort: str = "",
        size: int = 1,
    ) -> list[Any]:
        """Return what is told to the helper of a site with this total, which goes by this schema and booked it so."""
        context, totals = context_at(self.document, f"phase-{phase}", task), np.full(size, total)
        made = shared_totals(self.document, context, schema_of(schema), totals, self.key, system(), sort=sort)
        raw = base64.b64decode(made["report"][0])
        return [raw[:16].hex(), raw[16:96].hex(), 0, *([sort] if sort else [])]

    def add(self, shares: list[Any], schema: dict[str, Any] = AGES, **more: Any) -> dict[str, Any]:
        return self.step("add", schemas=[schema_of(schema).as_json()], reports=shares, **more)

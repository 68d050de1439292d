"""Three sites with real homes whose totals go to two servers, a coordinator's half and a helper: for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.federation import Gathering, Near
from tests.support.site_home import EVERYBODY, site_home
from tests.support.split_helper import Ward
from thebes.site.algorithm_process import Office

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

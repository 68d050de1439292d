"""Some made-up hospitals of a demonstration: each a site with its own processes, rows, policy and ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.cli.processes import Process
from thebes.coordinator.auth.accounts import ADMIN
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import SystemClock
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger
from thebes.privacy.faults import Fault
from thebes.privacy.figures import figure
from thebes.requestor.server import Server
from thebes.simulation import visits
from thebes.simulation.patients import DATASET, NAMES, SCHEMA, hospital, write_csv, write_sqlite
from thebes.site.budget.policy_text import appended
from thebes.site.dataset import GROWING, BlockDeclaration, BudgetDeclaration, DataSet, DataSets
from thebes.site.helping.keys import HelperKeys
from thebes.site.home import SiteHome
from thebes.site.streams import stream_of
from thebes.tasks.scene import MadeUpHospitals

MOST = len(NAMES)
EPSILON, DELTA = 60, 1e-5  #: what everything ever asked about the patients may cost one of them
BLOCK_EPSILON = 8  #: and about the visits of one day
READY_SECONDS = 60.0
#: what the one that helps says of whom it helps with
HELPS = f'\n[[help]]\nrequestors = ["{ADMIN.name}"]\nepsilon = {EPSILON}\nmin_count = 11\n'
_DAYS = 1  #: for so long the certificates count
_LOOK_SECONDS = 0.05

#: starts `thebes ...` as a process of that name
Start = Callable[..., Process]


class Hospitals:
    """`count` sites, made in `folder`. The last of several is the strict one: it lets no exact totals out."""

    def __init__(self, folder: Path, count: int, seed: int) -> None:
        self.names = NAMES[:count]
        self._folder, self._seed = folder, seed
        self._patients = {name: hospital(number, seed) for number, name in enumerate(self.names)}
        self.visits = visits.visits(seed)  #: of the first, whose data set of them grows
        self._processes: dict[str, Process] = {}

    @property
    def made_up(self) -> MadeUpHospitals:
        """These hospitals as scenes know them."""
        others = [hospital(number, self._seed + 1) for number in range(len(self.names))]
        unseen = {"other_patients": _together(others), "other_visits": visits.visits(self._seed + 1)}
        return MadeUpHospitals(DATASET, visits.DATASET, self.lenient, self.strict, self.visits, **unseen)

    @property
    def strict(self) -> str | None:
        """The one that refuses to show the coordinator its exact totals."""
        return self.names[-1] if len(self.names) > 1 else None

    @property
    def lenient(self) -> tuple[str, ...]:
        """Those that trust the coordinator with them."""
        return tuple(name for name in self.names if name != self.strict)

    @property
    def helper(self) -> str:
        """The last one, which runs the second of two servers too."""
        return self.names[-1]

    def helper_key(self) -> str:
        """Do what `thebes site helper` does there, and return the fingerprint that it publishes."""
        return HelperKeys(SiteHome(self._home_of(self.helper)).folder).identity().fingerprint

    def _home_of(self, name: str) -> Path:
        return self._folder / f"site-{name}"

    def start(self, coordinator: Path, site_url: str, start: Start) -> None:
        """Do what `thebes ca issue`, `thebes dataset create` and `grant` do at every site; then start its process."""
        authority = CertificateAuthority(coordinator, SystemClock())
        for number, name in enumerate(self.names):
            home = self._home_of(name)
            authority.issue(name, home, days=_DAYS)
            self._declare(SiteHome(home), name, sqlite=number % 2 == 1)
            arguments = ("--home", str(home), "--coordinator", site_url, "--port", "0")
            self._processes[name] = start("site", *arguments, called=f"site-{name}")

    def ready(self, server: Server, heed: Callable[[], None]) -> dict[str, str]:
        """The addresses of their pages, once all of them are linked and have said what they have; `heed` is called
        until then."""
        urls = {f"site {name}": str(process.ready()["url"]) for name, process in self._processes.items()}
        end = time.monotonic() + READY_SECONDS
        while not self._linked(server):
            heed()
            if time.monotonic() > end:
                raise Fault(
                    f"not every site is linked after {figure(READY_SECONDS)} seconds; "
                    f"the logs in {self._folder} say why"
                )
            time.sleep(_LOOK_SECONDS)
        return urls

    def patients(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Everybody's rows at these sites: known here, because they are made up."""
        return _together([self._patients[name] for name in names])

    def _declare(self, home: SiteHome, name: str, *, sqlite: bool) -> None:
        rows = home.folder / ("rows.sqlite" if sqlite else "rows.csv")
        (write_sqlite if sqlite else write_csv)(self._patients[name], rows)
        source = (
            {"kind": "sqlite", "path": str(rows), "table": DATASET} if sqlite else {"kind": "csv", "path": str(rows)}
        )
        dataset = DataSet(DATASET, schema_of(SCHEMA), source, BudgetDeclaration.of(EPSILON, DELTA))
        with Ledger(home.ledger) as ledger:
            ledger.open_block(DATASET, **dataset.terms)
        DataSets(home).keep(dataset)
        noise = ["site"] if name == self.strict else ["site", "coordinator"]
        kinds = ["query", "train"]
        rule = {"requestors": [ADMIN.name], "datasets": [DATASET], "kinds": kinds, "epsilon": EPSILON}
        policy = appended("", {**rule, "noise": noise})
        if name == self.names[0]:
            self._grow(home)
            grows = {"requestors": [ADMIN.name], "datasets": [visits.DATASET], "kinds": ["pipeline", "query"]}
            policy = appended(policy, {**grows, "epsilon": EPSILON, "noise": ["site"]})
        if name == self.helper:
            policy += HELPS
        private_files.write(home.policy, policy)

    def _grow(self, home: SiteHome) -> None:
        """Do what `thebes dataset create --block-by time:1d` and `ingest` do."""
        schema = schema_of(visits.SCHEMA)
        blocks = BlockDeclaration(block_by("time:1d", schema))
        made = DataSet(
            visits.DATASET, schema, {"kind": GROWING}, BudgetDeclaration.of(BLOCK_EPSILON, DELTA, "basic"), blocks
        )
        DataSets(home).keep(made)
        with Ledger(home.ledger) as ledger, closing(stream_of(home, made, ledger)) as stream:
            stream.ingest(visits.frame(self.visits))

    def _linked(self, server: Server) -> bool:
        known = {site["name"]: site for site in server.sites()}
        return all(
            name in known and known[name]["state"] == "connected" and DATASET in known[name]["datasets"]
            for name in self.names
        )


def _together(some: Sequence[Mapping[str, NDArray[Any]]]) -> Mapping[str, NDArray[Any]]:
    return {column: np.concatenate([rows[column] for rows in some]) for column in some[0]}

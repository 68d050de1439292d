"""The units in `deploy/systemd` under a real systemd: the commands of the documentation, an answer, every role killed,
the power cut, and what the ledgers say afterwards."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service_manager import PATIENCE, ServiceManager, service_manager

__all__ = ["service_manager"]  # pytest finds it here
ROOT = Path(__file__).parents[2]
SITE, COORDINATOR = "/var/lib/thebes-site", "/var/lib/thebes-coordinator"
SCHEMA = """unit = "person"
[columns.age]
type = "integer"
low = 0
high = 100
"""

#: the tasks that a site has answered, and paid for
_ANSWERS = """runuser -u thebes-site -- /opt/thebes/bin/python -c '
import json
from pathlib import Path
from thebes.site.steward.audit_log import Audit
log = Audit(Path("{}/audit.db"))
log.verify()
told = [each for each in log.entries() if each.event == "answer" and not each.facts.get("again")]
print(json.dumps([each.facts["task"] for each in told]))'
"""


def documented() -> Iterator[str]:
    """The commands of "Starting with the machine", which root types."""
    text = (ROOT / "docs" / "deployments.md").read_text(encoding="utf-8")
    section = text.partition("## Starting with the machine")[2].partition("\n## ")[0]
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        yield from (line.removeprefix("# ") for line in block.splitlines() if line.startswith("# "))


class Machine:
    """A machine on which everything was done that the documentation says."""

    def __init__(self, manager: ServiceManager) -> None:
        self.manager = manager
        self.asked = 0
        code = ""
        for line in documented():
            if "pip install" in line:
                continue  # /opt/thebes is there
            line = line.replace("coordinator.example:8443", "127.0.0.1:8443")
            line = line.replace("https://coordinator.example", "http://127.0.0.1:8000 --code-stdin")
            if line.startswith("systemctl enable --now thebes-site"):
                self._declare()
            said = manager.shell(f"cd /opt/project; {line}", given=code)
            if "ca invite" in line:
                code = said
            if line.startswith("systemctl enable --now thebes-coordinator"):
                self.until(lambda: self.answers("doctor --probe ready --coordinator http://127.0.0.1:8000"))

    def as_user(self, user: str, command: str) -> str:
        return self.manager.shell(f"runuser -u {user} -- /opt/thebes/bin/thebes {command}")

    def answers(self, command: str, user: str = "thebes-coordinator") -> bool:
        line = f"runuser -u {user} -- /opt/thebes/bin/thebes {command}"
        return self.manager.run("sh", "-c", line, check=False).returncode == 0

    def until(self, look: Callable[[], Any]) -> None:
        end = time.monotonic() + 2 * PATIENCE
        while not look():
            assert time.monotonic() < end, self.manager.shell("journalctl --no-pager -n 60 -u 'thebes-*'")
            time.sleep(0.2)

    def linked(self) -> bool:
        return self.answers(f"doctor --probe ready --home {SITE}", "thebes-site")

    def ask(self) -> float:
        """An answer of the site, once it is linked."""
        self.until(self.linked)
        self.asked += 1
        token = self.manager.shell(f"cat {COORDINATOR}/admin.token").strip()
        told = self.manager.shell(
            f"THEBES_TOKEN={token} /opt/thebes/bin/thebes sql 'SELECT COUNT(*) AS n FROM patients' --epsilon 1 "
            "--coordinator http://127.0.0.1:8000 --timeout 200 --json"
        )
        return float(json.loads(told)["rows"][0]["n"])

    def kill(self, unit: str) -> None:
        """SIGKILL to the unit's process; until there is another."""
        before = self.manager.main_process(unit)
        assert before
        self.manager.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unit)
        self.until(lambda: self.manager.main_process(unit) not in (0, before))

    def _declare(self) -> None:
        home = self.manager.root / SITE.lstrip("/")
        rows = "".join(f"{20 + n % 60}\n" for n in range(400))
        for name, text in (("patients.csv", f"age\n{rows}"), ("schema.toml", SCHEMA)):
            self.manager.shell(f"cat > {SITE}/{name} && chown thebes-site {SITE}/{name}", given=text)
        assert (home / "patients.csv").exists()
        self.as_user(
            "thebes-site",
            f"dataset create patients --home {SITE} --schema {SITE}/schema.toml --source {SITE}/patients.csv "
            "--epsilon 50",
        )
        self.as_user("thebes-site", f"dataset grant patients --home {SITE} --to '*' --kinds query --epsilon 50")


@pytest.mark.slow
def test_units_answer_come_back_after_every_kill_and_after_the_power_failed(service_manager: ServiceManager) -> None:
    with service_manager as manager:
        machine = Machine(manager)
        assert machine.ask() == pytest.approx(400, abs=60)  # Laplace of scale 1: further off once in e^60
        for unit in ("thebes-coordinator", "thebes-site"):
            machine.kill(unit)
            assert machine.ask() == pytest.approx(400, abs=60)
        manager.cut()
        manager.boot()
        assert machine.ask() == pytest.approx(400, abs=60)
        owner = manager.shell("stat -c %U /proc/$(systemctl show --property=MainPID --value thebes-site)")
        assert owner.strip() == "thebes-site"
        _secondly(machine)
        manager.shell(
            "install -m 600 /dev/null /etc/thebes/passphrase; echo a long passphrase > /etc/thebes/passphrase"
        )
        manager.run("systemctl", "start", "thebes-backup@thebes-site.service")
        assert len(manager.shell("ls /var/backups/thebes-site").split()) == 1
        manager.run("systemctl", "stop", "thebes-site", "thebes-coordinator")
        for unit in ("thebes-site", "thebes-coordinator"):
            assert manager.run("systemctl", "is-failed", unit, check=False).stdout.strip() == "inactive"
        _accounts(machine)


def _secondly(machine: Machine) -> None:
    """A second `thebes site` ends with status 1, and the first goes on."""
    before = machine.manager.shell(f"find {SITE} -name 'daemon.json' -o -name token | xargs md5sum")
    line = f"runuser -u thebes-site -- /opt/thebes/bin/thebes site --home {SITE} --coordinator 127.0.0.1:8443"
    second = machine.manager.run("sh", "-c", line, check=False)
    assert (second.returncode, second.stdout) == (1, "")
    assert machine.manager.shell(f"find {SITE} -name 'daemon.json' -o -name token | xargs md5sum") == before
    assert machine.linked()


def _accounts(machine: Machine) -> None:
    """The ledger is whole, and every answer was paid once."""
    machine.as_user("thebes-site", f"ledger verify --home {SITE}")
    machine.as_user("thebes-site", f"doctor --home {SITE}")
    machine.as_user("thebes-coordinator", f"doctor --home {COORDINATOR}")
    shown = json.loads(machine.as_user("thebes-site", f"ledger show --home {SITE} --json"))
    (block,) = shown["blocks"]
    assert all(meter["reserved"] == 0 for meter in block["meters"].values())  # what was killed left nothing set aside
    assert any(meter["spent"] > 0 for meter in block["meters"].values())
    audited = json.loads(machine.manager.shell(_ANSWERS.format(SITE)))
    assert len(audited) == len(set(audited)) == machine.asked  # each task was answered, and paid, once

"""Small homes of every role, made by the program as it is now, to be opened by every later version.

    python -m tests.homes.make       # at a release: writes tests/homes/VERSION/

A coordinator, a site that is linked to it and a person who takes part there run as they do at anybody's, with made-up
rows and throw-away keys. What then stands in their homes is packed, and beside it what is read in it now, so that a
test can hold what a later version reads against it.
"""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.support.coordinator import AGES, PETS, Server
from tests.support.kept_homes import KEPT, NOWHERE, PASSPHRASE, ROLES, heads, opened, pack, told, unpack
from tests.support.site_home import ask
from thebes import __version__
from thebes.cli.processes import Process
from thebes.person.home import Person
from thebes.requestor.server import connect

PASSWORD = "a long password"  #: of the requestor ana
PATIENTS = {"unit": "person", "columns": {"age": {"type": "integer", "low": 0, "high": 100}}}
VISITS = {
    "unit": "event",
    "time": "at",
    "columns": {"at": {"type": "timestamp"}, "age": {"type": "integer", "low": 0, "high": 100}},
}
COUNT = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


def thebes(*words: str | Path, stdin: str = "") -> str:
    """Run a command as anybody types it; what it prints."""
    command = [sys.executable, "-m", "thebes.cli.main", *map(str, words)]
    return subprocess.run(command, input=stdin, check=True, text=True, stdout=subprocess.PIPE).stdout


def live(folder: Path) -> None:
    """Make the homes in an empty folder and let them answer a few questions."""
    home = folder / "coordinator"
    with Server(home, log=folder / "coordinator.log", more=["--site-port", "0"]) as server:
        thebes("user", "add", "ana", "--password-stdin", "--home", home, stdin=PASSWORD + "\n")
        thebes("user", "grant", "ana", "--site", "north", "--kind", "query", "--home", home)
        (folder / "members").write_text("carla\ndario\n")
        words = ("group", "create", "city", "--minimum", "2", "--members", folder / "members", "--home", home, "--json")
        codes = json.loads(thebes(*words))["codes"]
        _person(folder / "person", server, codes["carla"])
        with Person(folder / "dario", coordinator=server.ready["url"]) as dario:
            dario.enrol("city", codes["dario"])
        thebes("group", "publish", "city", "--home", home)
        site = _site(folder, server.ready["site_url"])
        try:
            with connect(server.ready["url"], timeout=120) as ana:
                ana.login("ana", PASSWORD)
                while not any(each["state"] == "connected" and len(each["datasets"]) == 2 for each in ana.sites()):
                    time.sleep(0.1)
                ana.query("patients", "mean", column="age", epsilon=1.0, name="a mean")
                ana.query("visits", "count", epsilon=0.25, name="a count of visits")
        finally:
            site.stop()


def _site(folder: Path, url: str) -> Process:
    home = folder / "site"
    thebes("ca", "issue", "north", "--home", folder / "coordinator", "--out", home)
    (home / "patients.csv").write_text("age\n" + "".join(f"{20 + n % 60}\n" for n in range(120)))
    (folder / "patients.json").write_text(json.dumps(PATIENTS))
    (folder / "visits.json").write_text(json.dumps(VISITS))
    rows = "".join(f"2026-11-0{1 + n % 3}T12:{n % 60:02}:00Z,{n % 100}\n" for n in range(90))
    (folder / "visits.csv").write_text("at,age\n" + rows)
    here = ("--home", home, "--epsilon", "8")
    schema = ("--schema", folder / "patients.json")
    thebes("dataset", "create", "patients", *here, *schema, "--source", home / "patients.csv")
    grows = ("--schema", folder / "visits.json", "--block-by", "time:1d", "--delta", "1e-6")
    thebes("dataset", "create", "visits", *here, *grows)
    thebes("dataset", "ingest", "visits", folder / "visits.csv", "--home", home)
    for name in ("patients", "visits"):
        thebes("dataset", "grant", name, "--to", "ana", "--kinds", "query", *here)
    begun = ("--home", str(home), "--coordinator", url, "--port", "0")
    process = Process("site", "thebes.cli.main", "site", *begun, log=folder / "site.log")
    process.ready()
    return process


def _person(home: Path, server: Server, code: str) -> None:
    tasks = {
        "answered": {**AGES, "min_count": 12},
        "sent": PETS,
        "agreed to": {**AGES, "epsilon": 0.5},
        "not decided": {**AGES, "epsilon": 0.25},
    }
    ids = {name: server.post({**document, "name": name}) for name, document in tasks.items()}
    with Person(home, coordinator=server.ready["url"], delay=False, passphrase=PASSPHRASE) as me:
        columns = {"age": {"type": "integer", "description": "years"}}
        pets = {"species": {"type": "string", "description": "what it is"}}
        me.register("profile", {"demographics": {"columns": columns}, "pets": {"columns": pets}})
        me.insert("profile", "demographics", [{"age": 41}])
        me.insert("profile", "pets", [{"species": "cat"}])
        me.set_rules([{"type": "basic", "epsilon_at_most": 0.125, "probability": 0.5}])
        me.enrol("city", code)
        for name in ("answered", "sent"):
            me.accept(ids[name])
            me.wait(ids[name])
        server.fill(ids["answered"], 11, {"age": 50})
        server.wait_for(ids["answered"], "done")
        me.wait(ids["answered"], state="done")
        me.set_settings({"delay_seconds": 3600.0})
        me.accept(ids["agreed to"])  # and closed before it is sent


def keep(folder: Path, into: Path) -> None:
    """Pack what lies in a folder after `live`, and write down what the program reads in it."""
    moment = datetime.now(UTC).replace(microsecond=0)
    with opened(folder, moment) as homes:
        answer = homes.office.answer(ask(COUNT, task="kept", requestor="ana"))
    thebes("backup", folder / "site", "--to", folder / "site.copy")
    (folder / "passphrase").touch(0o600)
    (folder / "passphrase").write_text(PASSPHRASE + "\n")
    thebes("site", "init", "--home", folder / "empty")
    sealed = ("--to", folder / "sealed.copy", "--passphrase-file", folder / "passphrase")
    thebes("backup", folder / "empty", *sealed)
    settings = folder / "person" / "person.toml"
    settings.write_text(re.sub(r"http://127\.0\.0\.1:\d+", NOWHERE, settings.read_text()))
    into.mkdir()
    for role in ROLES:
        pack(folder / role, into / f"{role}.tar.xz")
    (into / "site.copy.xz").write_bytes(lzma.compress((folder / "site.copy").read_bytes()))
    shutil.copyfile(folder / "sealed.copy", into / "sealed.copy")
    again = unpack(into.name, folder / "again")
    facts = {"moment": moment.isoformat(), "passphrase": PASSPHRASE, "heads": heads(again), "answer": answer}
    with opened(again, moment) as homes:
        facts["told"] = told(homes)
    (into / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Make the homes of this version."""
    into = KEPT / __version__
    if into.exists():
        raise SystemExit(f"{into} is there; what a version that is out left behind stays. Remove it if it is not out.")
    os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    with tempfile.TemporaryDirectory(prefix="thebes-") as folder:
        live(Path(folder))
        keep(Path(folder), into)


if __name__ == "__main__":
    main()

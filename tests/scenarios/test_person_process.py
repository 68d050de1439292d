"""`thebes person` as a process: its ready line, its files, its end, and who else may use the home."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess

from thebes.person.folder import HomeInUse
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import NotSignedIn, Unreachable

pytestmark = pytest.mark.slow
NOWHERE = "http://127.0.0.1:9"


def started(home: Path) -> Iterator[PersonProcess]:
    made = PersonProcess(home, NOWHERE, "--example")
    made.ready()
    yield made
    assert made.process.stop() == 0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PersonProcess]:
    """One that several tests speak with, and leave as it was."""
    yield from started(tmp_path_factory.mktemp("running") / "home")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[PersonProcess]:
    """One that a test changes."""
    yield from started(tmp_path / "home")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "thebes.cli.main", *arguments], capture_output=True, text=True, timeout=PATIENCE
    )


def test_the_ready_line_opens_one_session(running: PersonProcess) -> None:
    facts = running.process.facts
    assert facts["notices_older_copies"] is False  # no keyring is given to it
    assert facts["url"].startswith(facts["address"] + "/?code=")
    with httpx.Client(trust_env=False, timeout=PATIENCE) as browser:
        opened = browser.get(facts["url"])
        assert opened.status_code == 303
        assert browser.get(facts["address"]).status_code == 200
        assert browser.get(facts["address"] + "/api/store").status_code == 200
    assert httpx.get(facts["url"], trust_env=False, timeout=PATIENCE).status_code == 401


def test_somebody_at_a_terminal_reads_two_lines(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    shown = [
        sys.executable,
        "-m",
        "thebes.cli.main",
        "person",
        "--coordinator",
        NOWHERE,
        "--home",
        str(tmp_path / "me"),
    ]
    with subprocess.Popen(shown, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        with os.fdopen(ours, encoding="utf-8") as terminal:
            first, second = terminal.readline(), terminal.readline()
            process.terminate()
            assert process.wait(timeout=PATIENCE) == 0
    assert re.match(r"Your machine runs[.] Open .* works once: http://127[.]0[.]0[.]1:[0-9]+/[?]code=\S+$", first)
    assert second.strip().endswith(f"in a second terminal: thebes person --home {tmp_path / 'me'} --open")


def test_another_one_time_address_is_printed_while_the_process_runs(running: PersonProcess, tmp_path: Path) -> None:
    again = command("person", "--home", str(running.home), "--open")
    assert (again.returncode, again.stderr) == (0, "")
    address = again.stdout.strip()
    assert address.startswith(running.process.facts["address"] + "/?code=")
    with httpx.Client(trust_env=False, timeout=PATIENCE) as browser:
        assert browser.get(address).status_code == 303
    used = httpx.get(address, trust_env=False, timeout=PATIENCE)
    assert used.status_code == 401
    assert "thebes person --home DIR --open" in used.text
    nobody = command("person", "--home", str(tmp_path / "empty"), "--open")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "no `thebes person` runs in" in nobody.stderr
    assert not (tmp_path / "empty").exists()


def test_every_file_is_its_owners_alone_and_an_example_is_there(running: PersonProcess) -> None:
    for path in [running.home, *running.home.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path.name
    tables = {t["name"]: t["rows"] for t in running.get("/api/store")[0]["tables"]}
    assert tables == {"demographics": 1, "example": 1, "pets": 1}


def test_an_unreachable_coordinator_is_said_so_and_the_rest_works(running: PersonProcess) -> None:
    answer = running.http.get("/api/tasks")
    assert answer.status_code == 502
    assert NOWHERE in answer.json()["detail"]
    assert running.get("/api/ledger")["entries"] == []
    with thebes.open_person(running.home) as me, pytest.raises(Unreachable):
        me.tasks()


def test_an_unreachable_coordinator_is_one_line_at_the_start(tmp_path: Path) -> None:
    with (tmp_path / "said").open("w") as said:
        arguments = ("person", "--home", str(tmp_path / "home"), "--coordinator", NOWHERE, "--port", "0")
        command = [sys.executable, "-m", "thebes.cli.main", *arguments]
        nowhere = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=nowhere)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"] is True  # being offline stops nobody
        end = time.monotonic() + PATIENCE
        while (tmp_path / "said").read_text().count("\n") < 2 and time.monotonic() < end:
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
        process.stdout.close()
    offline, unnoticed = sorted((tmp_path / "said").read_text().splitlines(), key=lambda line: "older copy" in line)
    assert offline.startswith(f"thebes: the coordinator cannot be asked now: {NOWHERE}: ")
    assert unnoticed.startswith("thebes: it runs. One thing to know: never put an older copy of this home back by hand")


def test_another_coordinator_is_a_mistake_while_the_process_runs(running: PersonProcess) -> None:
    with pytest.raises(Mistake, match=NOWHERE) as refused:
        thebes.open_person(running.home, coordinator="http://127.0.0.1:10")
    assert refused.value.argument == "coordinator"
    thebes.open_person(running.home, coordinator=NOWHERE + "/").close()


def test_the_documented_requests_of_a_collector_do_what_they_say(own: PersonProcess) -> None:
    page = (Path(__file__).parents[2] / "docs" / "person-programs.md").read_text(encoding="utf-8")
    requests = re.findall(r'^curl "\$address([^"]+)"[^\n]*-d \'(.*?)\'$', page, re.DOTALL | re.MULTILINE)
    assert [path for path, _ in requests] == ["/app/profile/register", "/app/profile/insert"]
    own.get("/api/store")
    own.http.post("/api/store/profile/remove", json={"keep_data": False})
    answers = [own.http.post(path, json=json.loads(body)).json() for path, body in requests]
    assert answers == [{"app": "profile", "version": 1}, {"inserted": 2}]
    assert all(f"`{json.dumps(answer)}`" in page for answer in answers)


def test_a_home_in_use_is_talked_to_and_never_opened_twice(own: PersonProcess) -> None:
    second = command("person", "--home", str(own.home), "--port", "0")
    assert second.returncode == 1
    assert "another process uses the home" in second.stderr
    assert f"thebes person --home {own.home} --open" in second.stderr
    assert "Traceback" not in second.stderr
    with thebes.open_person(own.home) as me:
        me.register("diary", {"entry": {"columns": {"mood": {"type": "integer", "description": ""}}}})
        assert me.insert("diary", "entry", [{"mood": 4}]) == 1
        assert me.newest("diary", "entry") == [{"mood": 4}]
        with pytest.raises(Mistake) as refused:
            me.insert("diary", "entry", [{"mood": "high"}])
        assert "mood" in refused.value.argument
        me.set_rules([{"type": "basic", "epsilon_at_most": 1.0, "probability": 0.5}])
        assert me.rules() == [{"type": "basic", "epsilon_at_most": 1.0, "probability": 0.5}]
        assert me.set_settings({"period_days": 7})["period_days"] == 7
        assert me.export()["store"]["collectors"]["diary"]
        me.remove("diary", keep_data=False)
        assert "diary" not in [c["name"] for c in me.store()]
    announced = own.home / "daemon.json"
    kept = announced.read_text()
    announced.write_text(json.dumps({"url": NOWHERE, "pid": 1}))
    with pytest.raises(HomeInUse):
        thebes.open_person(own.home)
    announced.write_text(kept)


def test_a_new_token_takes_effect_while_the_process_runs(own: PersonProcess) -> None:
    with thebes.open_person(own.home) as before:
        done = command("person", "--home", str(own.home), "--new-token")
        assert done.returncode == 0, done.stderr
        with pytest.raises(NotSignedIn):
            before.store()
    with thebes.open_person(own.home) as after:
        assert after.store()


def test_destroying_everything_ends_the_process_and_leaves_nothing(tmp_path: Path) -> None:
    made = PersonProcess(tmp_path / "home", NOWHERE, "--example")
    made.ready()
    with thebes.open_person(made.home) as me:
        me.destroy()
    assert made.process.ended() == 0
    assert list(made.home.iterdir()) == []


def test_an_address_left_behind_is_not_trusted_with_the_token(tmp_path: Path) -> None:
    made = PersonProcess(tmp_path / "home", NOWHERE, "--example")
    made.ready()
    made.process.kill()
    assert (made.home / "daemon.json").exists()
    with thebes.open_person(made.home) as me:  # the home itself, not whoever may listen there now
        assert type(me).__name__ == "Person"
        assert me.store()[0]["name"] == "profile"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["person", "--home", "{home}"], "--coordinator"),
        (["person", "--home", "{home}", "--coordinator", "nonsense"], "url"),
        (["person", "--home", "{home}", "--coordinator", NOWHERE, "--port", "70000"], "--port"),
        (["person", "--home", "{file}", "--coordinator", NOWHERE], "not a folder"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "file").write_text("")
    named = [a.format(home=tmp_path / "home", file=tmp_path / "file") for a in arguments]
    done = command(*named)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_port_in_use_is_a_mistake(running: PersonProcess, tmp_path: Path) -> None:
    port = running.process.facts["address"].rpartition(":")[2]
    done = command("person", "--home", str(tmp_path / "other"), "--coordinator", NOWHERE, "--port", port)
    assert (done.returncode, "--port" in done.stderr) == (2, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 12345, 12345)
    assert command("person", "--home", str(tmp_path / "home"), "--coordinator", NOWHERE).returncode == 2


def test_a_passphrase_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_PASSPHRASE", "correct horse battery")
    made = PersonProcess(tmp_path / "home", NOWHERE, "--example")
    made.ready()
    assert made.process.stop() == 0
    with pytest.raises(Mistake, match="passphrase"):
        thebes.open_person(tmp_path / "home")
    with thebes.open_person(tmp_path / "home", passphrase="correct horse battery") as me:
        assert me.store()[0]["name"] == "profile"

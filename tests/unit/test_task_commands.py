"""`thebes simulate`, `thebes task` and `thebes demo`, as a person at a terminal meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

from tests.support.command import exit_status
from thebes.cli import main as command

MEDIAN = {
    "type": "basic",
    "epsilon": 1,
    "featurizer": "SELECT age FROM p.t",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("task.json").write_text(json.dumps(MEDIAN))
    Path("people.csv").write_text("age,town\n" + "".join(f"{20 + i % 50},a\n" for i in range(300)))
    return tmp_path


@pytest.fixture
def thebes(desk, capsys):
    """Run one command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    return run


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "thebes.cli.main", *arguments], capture_output=True, text=True, timeout=120
    )


def test_a_table_is_simulated_and_the_release_printed(thebes) -> None:
    status, out, err = thebes("simulate", "task.json", "people.csv", "--seed", "1")
    assert status == 0
    assert "95% interval" in out
    assert "epsilon 1" in out
    assert err == ""
    assert thebes("simulate", "task.json", "people.csv", "--seed", "1")[1] == out
    assert thebes("simulate", "task.json", "people.csv", "--seed", "2")[1] != out


def test_what_a_question_to_sites_costs_is_said_of_a_unit_that_their_schemas_name(thebes) -> None:
    question = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
    Path("question.json").write_text(json.dumps(question))
    status, out, _ = thebes("task", "check", "question.json")
    assert status == 0
    assert "epsilon 0.5, delta 0 for one unit (person or event, as the data set's schema says) at each site" in out
    assert "for one device" in thebes("task", "check", "task.json")[1]


@pytest.mark.parametrize("spelling", [["--json"], ["--json", "-"], ["--json", "out.json"], ["--json=-"]])
def test_json_goes_where_it_was_asked_to(thebes, spelling) -> None:
    status, out, err = thebes("simulate", "task.json", "people.csv", *spelling)
    body = json.loads(Path("out.json").read_text() if "out.json" in spelling else out)
    assert (status, err) == (0, "")
    assert set(body) >= {"value", "interval", "certificate"}
    assert 0 <= body["value"] <= 120
    assert (out == "") == ("out.json" in spelling)


def test_parquet_and_person_id_are_read(thebes) -> None:
    frame = pd.DataFrame({"person_id": [i // 3 for i in range(300)], "age": [40.0] * 300})
    frame.to_csv("grouped.csv", index=False)
    import duckdb

    duckdb.sql("COPY frame TO 'grouped.parquet' (FORMAT parquet)")
    for table in ("grouped.csv", "grouped.parquet"):
        _, out, _ = thebes("simulate", "task.json", table, "--json")
        assert json.loads(out)["certificate"]["contributors"] == 100


def test_too_few_rows_are_a_warning(thebes) -> None:
    Path("few.csv").write_text("age\n30\n40\n")
    status, out, err = thebes("simulate", "task.json", "few.csv", "--json")
    assert status == 0
    assert "min_count 11" in err
    assert err.count("\n") == 1
    assert json.loads(out)["certificate"]["simulated"] is True


def test_a_release_without_a_value_says_why(thebes) -> None:
    Path("blind.json").write_text(json.dumps({**MEDIAN, "bounds": None, "epsilon": 0.1}))
    status, out, _ = thebes("simulate", "blind.json", "people.csv", "--seed", "1")
    assert status == 0
    assert "Say which range" in out
    body = json.loads(thebes("simulate", "blind.json", "people.csv", "--seed", "1", "--json")[1])
    assert body["value"] is None
    assert body["interval"] is None


NONSENSE = {
    "empty.csv": b"",
    "header.csv": b"age\n",
    "other.csv": b"height\n1\n2\n",
    "words.csv": b"age\nold\nyoung\n",
    "nothing.csv": b"age\nNaN\nnan\n",
    "binary.csv": bytes(range(256)) * 20,
    "binary.parquet": bytes(range(256)) * 20,
    "empty.parquet": b"",
    "picture.png": b"\x89PNG",
    "ragged.csv": b'age\n1,2,3\n"\n',
}


@pytest.mark.few(5)
@pytest.mark.parametrize("name", [*NONSENSE, "absent.csv", "."])
def test_a_table_that_cannot_be_used_is_your_mistake_in_one_sentence(thebes, name) -> None:
    if name in NONSENSE:
        Path(name).write_bytes(NONSENSE[name])
    status, out, err = thebes("simulate", "task.json", name)
    assert (status, out) == (2, "")
    assert err.startswith("thebes: ")
    assert err.count("\n") == 1


DOCUMENTS = {
    "not.json": b"{",
    "list.json": b"[1]",
    "binary.json": b"\xff\xfe\x00",
    "empty.json": b"",
    "deep.json": b"[" * 200_000,
    "deeper.json": b'{"type":' * 100_000,
    "nan.json": b'{"type": "basic", "epsilon": NaN}',
    "kind.json": b'{"type": "telepathy"}',
    "number.json": b'{"type": "basic", "epsilon": 1' + b"0" * 5000 + b"}",
    "field.json": json.dumps({**MEDIAN, "surprise": 1}).encode(),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("verb", ["check", "explain", "simulate"])
@pytest.mark.parametrize("name", [*DOCUMENTS, "absent.json", "."])
def test_a_document_that_cannot_be_used_is_your_mistake_in_one_sentence(thebes, name, verb) -> None:
    if name in DOCUMENTS:
        Path(name).write_bytes(DOCUMENTS[name])
    status, out, err = thebes(*(["simulate", name, "people.csv"] if verb == "simulate" else ["task", verb, name]))
    assert (status, out) == (2, "")
    assert err.startswith("thebes: ")
    assert err.count("\n") == 1
    assert len(err) < 500


def test_check_prints_digest_and_price(thebes) -> None:
    from thebes.tasks import registry

    digest = registry.check(MEDIAN).digest
    status, out, _ = thebes("task", "check", "task.json")
    assert (status, digest in out, "epsilon 1" in out) == (0, True, True)
    body = json.loads(thebes("task", "check", "task.json", "--json")[1])
    assert body["digest"] == digest
    assert body["price"] == {"epsilon": 1.0, "delta": 0.0, "unit": "device"}
    assert registry.check(body["document"]).digest == digest


def test_explain_names_what_is_read_and_the_price(thebes) -> None:
    _, out, _ = thebes("task", "explain", "task.json")
    assert "age from p.t" in out
    assert "epsilon 1" in out
    assert json.loads(thebes("task", "explain", "task.json", "--json")[1])["explanation"] == out.rstrip("\n")


@pytest.mark.slow
def test_plan_finds_an_epsilon_that_keeps_its_word(thebes) -> None:
    status, out, _ = thebes("task", "plan", "task.json", "--within", "5", "--people", "500", "--json")
    body = json.loads(out)
    assert status == 0
    assert 0.01 < body["epsilon"] < 10
    assert thebes("task", "plan", "task.json", "--within", "5", "--people", "500", "--data", "people.csv")[0] == 0
    for wrong in (["--within", "0"], ["--within", "nan"], ["--within", "inf"], ["--share", "2", "--within", "1"]):
        status, _, err = thebes("task", "plan", "task.json", "--people", "500", *wrong)
        assert status == 2
        assert err.startswith("thebes: ")


def test_a_file_that_cannot_be_written_is_named(thebes) -> None:
    status, _, err = thebes("simulate", "task.json", "people.csv", "--json", "/nowhere/out.json")
    assert status == 2
    assert "/nowhere/out.json" in err


def commands(made: Any, *words: str) -> Iterator[tuple[str, ...]]:
    yield words
    for name, each in getattr(made, "commands", {}).items():
        yield from commands(each, *words, name)


@pytest.mark.few(1)
def test_every_command_has_help_with_an_example_of_itself(thebes) -> None:
    known = list(commands(typer.main.get_command(command.app)))
    assert len(known) > 60
    for words in known:
        status, out, _ = thebes(*words, "--help")
        assert (words, status) == (words, 0)
        assert f"Example: {' '.join(('thebes', *words))} " in " ".join(out.split())


class Said(BaseHTTPRequestHandler):
    """A coordinator that knows no task, and nobody without the right token."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.refuse(404, "NotFound", "there is no such task")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.refuse(401, "NotSignedIn", "this needs a token")

    def refuse(self, status: int, error: str, detail: str) -> None:
        kind = f"urn:thebes:error:{error}"
        body = json.dumps({"type": kind, "title": "-", "status": status, "error": error, "detail": detail})
        self.send_response(status)
        self.send_header("content-type", "application/problem+json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())


def test_a_wrong_name_and_a_missing_token_are_mistakes_of_whoever_asks(thebes) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Said) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = ("--coordinator", f"http://127.0.0.1:{server.server_port}")
        said = "thebes: there is no such task (more: thebes errors NotFound)\n"
        assert thebes("task", "show", "nope", *address) == (2, "", said)
        status, out, err = thebes("task", "submit", "task.json", *address)
        assert (status, out) == (2, "")
        assert "--token" in err
        server.shutdown()
    for words in (["user", "disable", "nope"], ["ca", "revoke", "nope"], ["group", "publish", "nope"]):
        assert thebes(*words, "--home", "home")[0] == 2


def test_help_says_what_commands_do_to_the_end_of_the_sentence(thebes) -> None:
    status, out, _ = thebes("-h")
    assert (status, "..." in out.partition("Commands:")[2]) == (0, False)
    assert "every kind of task, beside the truth." in " ".join(out.split())
    for group in ("task", "collector", "user", "group", "ledger"):
        status, out, _ = thebes(group, "-h")
        assert (status, "..." in out.partition("Commands:")[2]) == (0, False)
    assert thebes("collector", "install", "-h")[0] == 0


@pytest.mark.slow
def test_a_process_ends_with_the_status_it_promises(desk) -> None:
    good = shell("task", "check", "task.json")
    bad = shell("task", "check", "absent.json")
    assert (good.returncode, good.stderr) == (0, "")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "thebes: TASK: there is no file 'absent.json'\n"


HEAVY = ("opendp", "torch", "duckdb", "matplotlib", "sklearn", "pandas", "dp_accounting", "scipy")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "code",
    [
        "import thebes",
        "import sys; sys.argv = ['thebes', '--help']\nfrom thebes.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass",
        "from thebes.web.coordinator import pages\nfrom thebes.web.person import pages\n"
        "from thebes.coordinator.process import server, worker\n"
        "from thebes.person import daemon\nfrom thebes.tasks import registry\n"
        "registry.load_all()\nregistry.load_releases()",
    ],
    ids=["import", "help", "servers"],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code: str) -> None:
    asked = f"import sys\n{code}\nprint('loaded', [m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded []"


def test_the_network_of_the_demo_is_what_encode_gives() -> None:
    torch = pytest.importorskip("torch")
    from thebes.tasks.gradient import scene
    from thebes.torch import encode

    network = torch.nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        network.weight.zero_()
    assert encode(network, torch.nn.CrossEntropyLoss()) == (scene.MODEL, scene.LOSS)


def test_there_is_a_scene_of_every_kind_and_each_is_one_that_people_can_afford() -> None:
    from thebes.cli.demo.crowd import ALLOWANCE
    from thebes.cli.demo.scenes import scenes, waiting, wanted
    from thebes.tasks import registry

    for people in (50, 60, 300, 2000):
        made = [*scenes(people), *waiting(people)]
        documents = [registry.check(scene.document) for scene in made]
        assert {document.type for document in documents} == set(registry.people_types())
        assert all(11 <= document.min_count <= wanted(people) < 0.65 * people for document in documents)
        assert sum(document.epsilon for document in documents) < ALLOWANCE["trusted"]["epsilon"]


def test_a_simulated_model_no_better_than_guessing_is_a_warning(thebes) -> None:
    x = np.random.default_rng(1).normal(0, 1, 200)
    label = np.random.default_rng(2).integers(0, 2, 200)
    bounds = {"x": {"type": "range", "low": -3, "high": 3}, "y": {"type": "set", "values": [0, 1]}}
    document = {
        "type": "integrated", "epsilon": 0.01, "featurizer": "SELECT x, y FROM p.t", "model": "GaussianNB",
        "inputs": ["x"], "output": "y", "bounds": bounds,
    }  # fmt: skip
    Path("model.json").write_text(json.dumps(document))
    Path("rows.csv").write_text("x,y\n" + "".join(f"{a:.3f},{b}\n" for a, b in zip(x, label, strict=True)))
    status, out, err = thebes("simulate", "model.json", "rows.csv", "--seed", "1")
    assert status == 0
    assert "thebes: warning: the model is no better than guessing: of 200 rows that it learned from it gets " in err
    assert "rows simulated, from which it learned, y: the model gets " in out
    Path("more.csv").write_text("x,y\n" + "".join(f"{a:.3f},{int(a > 0)}\n" for a in x))
    Path("model.json").write_text(json.dumps({**document, "epsilon": 50}))
    status, out, err = thebes("simulate", "model.json", "more.csv", "--seed", "1", "--aside", "more.csv")
    assert (status, err) == (0, "")
    assert "rows kept aside, y: the model gets " in out
    assert thebes("simulate", "model.json", "rows.csv", "--aside", "more.csv", "--aside", "rows.csv")[0] != 0


@pytest.mark.slow
def test_a_plan_over_a_table_says_which_values_do_not_fit(thebes) -> None:
    Path("old.csv").write_text("age\n" + "130\n" * 20 + "40\n" * 80)
    status, _, err = thebes("task", "plan", "task.json", "--within", "20", "--people", "100", "--data", "old.csv")
    assert (status, err.count("thebes: warning: age: ")) == (0, 1)
    assert "cut to it" in err


@pytest.mark.parametrize(
    "command", [("task", "plan", "task.json", "--within", "20", "--people", "9", "--data"), ("simulate", "task.json")]
)
def test_a_table_is_read_alike_for_a_plan_and_for_a_simulation(thebes, command) -> None:
    Path("odd.csv").write_text("age\n30\nold\n40\n")
    status, _, err = thebes(*command, "odd.csv")
    assert (status, err) == (2, "thebes: DATA: line 3 has text in column 'age', where the task needs a number\n")


def test_the_demos_table_fits_a_terminal_of_eighty_columns() -> None:
    import io

    from rich.console import Console

    from thebes.cli.demo.command import show
    from thebes.cli.demo.scenes import scenes

    told = {"true": -0.123456, "value": -0.234567, "seconds": 23.456, "verdict": "FAILED", "epsilon": 16}
    rows = [
        {**told, "name": s.name, "type": "x", "interval": None, "metric": s.metric, "guessing": 0.523456}
        if s.metric
        else {**told, "name": s.name, "type": "x", "interval": {"low": -12.3456, "high": -1.23456}}
        for s in scenes(300)
    ]
    page = io.StringIO()
    show(rows, 300, 3, Console(file=page, width=80))
    table = page.getvalue()
    assert "…" not in table
    assert all(len(line) <= 80 for line in table.splitlines())
    for word in ("released", "epsilon", "FAILED", *(row["name"] for row in rows)):
        assert word in table


def test_check_refuses_a_document_whose_deadline_has_passed(thebes) -> None:
    Path("late.json").write_text(json.dumps({**MEDIAN, "expires_at": "2020-01-01T00:00:00Z"}))
    status, out, err = thebes("task", "check", "late.json")
    assert (status, out) == (2, "")
    assert err == "thebes: expires_at: has passed\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'bad.csv' is empty; line 1 names the columns, every other one is a row"),
        ("age\n", "'bad.csv' is empty; line 1 names the columns, every other one is a row"),
        ("age,town\n30,a\n31\n", "line 3 of 'bad.csv' has 1 values, the first has 2"),
        ("age,town\n30,a\n\n31,b,c\n", "line 4 of 'bad.csv' has 3 values, the first has 2"),
        ('age,town\n30,"a\nb"\nforty,c\n', "line 4 has text in column 'age', where the task needs a number"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_line_and_reason(thebes, text, said) -> None:
    Path("bad.csv").write_text(text)
    status, out, err = thebes("simulate", "task.json", "bad.csv")
    assert (status, out) == (2, "")
    assert err == f"thebes: DATA: {said}\n"
    assert "forty" not in err


def test_text_that_the_task_turns_into_numbers_itself_is_no_mistake(thebes) -> None:
    turned = {**MEDIAN, "featurizer": "SELECT CASE WHEN age = 'old' THEN 70 ELSE 20 END AS age FROM p.t"}
    Path("turned.json").write_text(json.dumps(turned))
    Path("words.csv").write_text("age\n" + "old\nyoung\n" * 50)
    assert thebes("simulate", "turned.json", "words.csv", "--seed", "1")[0] == 0


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_price_that_protects_hardly_at_all_is_a_warning(thebes, command) -> None:
    Path("weak.json").write_text(json.dumps({**MEDIAN, "epsilon": 30, "delta": 0.05}))
    status, _, err = thebes("task", command, "weak.json")
    assert status == 0
    lines = err.splitlines()
    assert [line[:27] for line in lines] == ["thebes: warning: Epsilon 30", "thebes: warning: Delta 0.05"]
    assert thebes("task", command, "task.json")[2] == ""


def test_a_folder_given_as_a_ledger_is_pointed_to_home(thebes) -> None:
    Path("me").mkdir()
    assert thebes("ledger", "show", "me") == (2, "", "thebes: ledger: 'me' is a folder; write --home me\n")
    Path("budget.db").touch()
    assert thebes("ledger", "show", "budget.db")[2].endswith("is a file; write sqlite:///budget.db\n")


@pytest.mark.slow
def test_a_user_is_added_without_a_terminal_in_one_sentence(tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    Path(home).mkdir(mode=0o700)
    for more in ([], ["--password-stdin"]):
        command = [sys.executable, "-m", "thebes.cli.main", "user", "add", "ana", "--home", home, *more]
        for line in ("exec 0<&-; ", "exec 0</dev/null; "):
            done = subprocess.run(
                ["sh", "-c", line + 'exec "$@"', "sh", *command], capture_output=True, text=True, start_new_session=True
            )
            assert done.returncode == 2
            assert done.stderr.startswith("thebes: --password-stdin: ")
            assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["rotate"], ["rotate", "", "--home", "x"], ["rotate", "key", "--home", "x"]])
def test_a_choice_that_is_missing_or_misspelt_is_told_with_what_there_is_in_one_line(thebes, arguments) -> None:
    status, out, err = thebes(*arguments)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert "session.key" in err
    assert "Value error" not in err


@pytest.mark.parametrize("host", ["999.1.1.1", "203.0.113.7"])
def test_a_host_that_is_not_this_machines_is_not_blamed_on_the_port(thebes, host) -> None:
    status, out, err = thebes("coordinator", "--home", "server", "--host", host, "--port", "0")
    assert (status, out) == (2, "")
    assert err == f"thebes: --host: {host} is not an address of this machine\n"


@pytest.mark.slow
def test_what_the_demo_asks_of_hospitals_can_be_asked_and_answered() -> None:
    """Every scene through the same halves of the kinds, over the same patients, without processes."""
    import pandas as pd

    import thebes
    from thebes.cli.demo.scenes import site_scenes
    from thebes.simulation import visits
    from thebes.simulation.patients import DATASET, NAMES, SCHEMA, hospital
    from thebes.tasks import registry
    from thebes.tasks.scene import MadeUpHospitals

    names = NAMES[:3]
    frames = {name: pd.DataFrame(hospital(number, 7)) for number, name in enumerate(names)}
    patients = {column: pd.concat(frames.values())[column].to_numpy() for column in frames["north"].columns}
    seen = visits.visits(7)
    others = [hospital(number, 8) for number in range(3)]
    unseen = ({column: np.concatenate([each[column] for each in others]) for column in others[0]}, visits.visits(8))
    made = site_scenes(MadeUpHospitals(DATASET, visits.DATASET, names[:2], names[2], seen, *unseen))
    assert {scene.document["type"] for scene in made} == set(registry.site_types())
    assert [scene.missing for scene in made if scene.missing] == [("harbour",)]
    for scene in made:
        if scene.document["type"] == "pipeline":
            grown = thebes.simulate(scene.document, {"north": visits.frame(seen)}, schema=visits.SCHEMA, seed=1)
            assert scene.judge(grown, patients).ok, scene.name
            continue
        asked = {**scene.document, "sites": "all"}
        release = thebes.simulate(asked, frames, schema=SCHEMA, seed=1)
        assert scene.judge(release, patients).ok, scene.name
        if scene.metric == "right":
            strangers = {**patients, "diabetes": np.random.default_rng(1).permutation(patients["diabetes"])}
            learned = thebes.simulate(asked, {"north": pd.DataFrame(strangers)}, schema=SCHEMA, seed=1)
            assert not scene.judge(learned, patients).ok, f"{scene.name}: nothing was learned, and it is not said"
    assert all(
        not scene.missing
        for scene in site_scenes(MadeUpHospitals(DATASET, visits.DATASET, names[:1], None, seen, *unseen))
    )

"""`thebes site init` and `thebes dataset`, as a steward at a terminal meets them."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.support.command import exit_status
from thebes.cli import main
from thebes.cli.output import json_target
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.faults import Mistake
from thebes.site.budget.policy import TaskFacts
from thebes.site.budget.policy_file import PolicyFile
from thebes.site.dataset import DataSets, read
from thebes.site.home import SiteHome

Run = Callable[..., tuple[int, str, str]]
SCHEMA = """
unit = "person"
max_rows_per_unit = 2
[columns.who]
type = "string"
key = true
[columns.age]
type = "integer"
low = 0
high = 100
[columns.sex]
type = "string"
values = ["female", "male"]
"""
ROWS = "who,age,sex\na,30,female\nb,140,male\nc,,x\nd,nonsense,male\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command line; its exit status, standard output and standard error."""

    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    monkeypatch.delenv("THEBES_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "rows.csv").write_text(ROWS)
    return go


CREATE = ("dataset", "create", "patients", "--home", "site", "--schema", "schema.toml", "--epsilon", "2")


def created(run: Run, *more: str) -> tuple[int, str, str]:
    return run(*CREATE, *(more if "--source" in more else ("--source", "rows.csv", *more)))


def test_a_new_site_allows_nothing_and_is_its_stewards_alone(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("site", "init", "--home", "site")
    assert status == 0
    assert "thebes ca invite" in out
    policy = PolicyFile(tmp_path / "site" / "policy.toml")()
    assert (policy.trouble, policy.rules) == (None, ())
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "site" / "policy.toml").stat().st_mode & 0o777 == 0o600
    (tmp_path / "site" / "policy.toml").write_text("# mine")
    assert "stays as it is" in run("site", "init", "--home", "site")[1]
    assert (tmp_path / "site" / "policy.toml").read_text() == "# mine"


@pytest.mark.slow
def test_a_new_data_set_says_who_may_ask_about_it_already(run: Run) -> None:
    run("site", "init", "--home", "site")
    assert "Nobody may ask about it yet: thebes dataset grant patients --home" in created(run)[1]
    run("dataset", "grant", "patients", "--home", "site", "--to", "ana", "--kinds", "query", "--epsilon", "1")
    run("dataset", "remove", "patients", "--home", "site")
    assert "By policy.toml ana may ask about it already." in created(run)[1]
    run("dataset", "remove", "patients", "--home", "site")
    with Path("site/policy.toml").open("a") as policy:
        policy.write("nonsense = 1\n")
    assert "Nobody may ask about it yet: policy.toml: " in created(run)[1]


def test_the_example_schema_is_one(run: Run, tmp_path: Path) -> None:
    run("site", "init", "--home", "site")
    (tmp_path / "rows.csv").write_text("patient,age,sex\np,1,male\n")
    status, _, err = run(*CREATE[:5], "--schema", "site/schema.example.toml", "--source", "rows.csv", "--epsilon", "1")
    assert (status, err) == (0, "")


@pytest.mark.slow
def test_a_data_set_is_declared_shown_granted_and_removed(run: Run, tmp_path: Path) -> None:
    status, out, err = created(run)
    assert (status, err) == (0, "")
    assert not re.search(r"(?<![\d.])4", out.replace(str(tmp_path), ""))  # no count of rows unless it is asked for
    assert (
        "so many answers with Laplace noise (filter basic): 100 of epsilon 0.02, 20 of epsilon 0.1, 10 of epsilon 0.2, "
        in out
    )
    shown = json.loads(run("dataset", "show", "patients", "--home", "site", "--json")[1])
    (block,) = shown["blocks"]
    assert {name: block[name] for name in ("block", "epsilon", "delta", "remaining", "state")} == {
        "block": "patients",
        "epsilon": 2.0,
        "delta": 0.0,
        "remaining": {"epsilon": 2.0, "delta": 0.0},
        "state": "open",
    }
    assert block["filter"] == "basic"
    assert (
        "patients: Of epsilon 2: nothing spent; an answer may cost up to 2"
        in run("dataset", "list", "--home", "site")[1]
    )
    assert "key (never shown)" in run("dataset", "show", "patients", "--home", "site")[1]
    grant = ("dataset", "grant", "patients", "--home", "site", "--to", "ana", "--to", "bob", "--kinds", "query,train")
    assert run(*grant, "--epsilon", "0.5")[0] == 0
    assert run(*grant, "--epsilon", "1", "--delta", "1e-6", "--noise", "site,coordinator")[0] == 0
    rules = PolicyFile(tmp_path / "site" / "policy.toml")().rules
    assert [float(rule.epsilon) for rule in rules] == [0.5, 1.0]
    assert rules[0].covers(TaskFacts("bob", "patients", "train", "site"))
    assert not rules[0].covers(TaskFacts("bob", "patients", "train", "coordinator"))
    assert rules[1].covers(TaskFacts("bob", "patients", "train", "coordinator"))
    with Ledger("sqlite:///site/ledger.db") as ledger:
        ledger.reserve(["patients"], epsilon=1.5, purpose="test", spender="ana").consume()
    assert run("dataset", "remove", "patients", "--home", "site")[0] == 0
    assert "no data set" in run("dataset", "list", "--home", "site")[1]
    assert run("dataset", "show", "patients", "--home", "site")[0] == 2
    assert created(run)[0] == 0
    again = json.loads(run("dataset", "show", "patients", "--home", "site", "--json")[1])
    assert again["blocks"][0]["remaining"]["epsilon"] == 0.5


@pytest.mark.slow
def test_the_filter_follows_delta_unless_it_is_named(run: Run) -> None:
    created(run, "--delta", "1e-6")
    assert (
        json.loads(run("dataset", "show", "patients", "--home", "site", "--json")[1])["blocks"][0]["filter"] == "either"
    )
    for filter in ("basic", "zcdp", "renyi"):
        arguments = ("dataset", "create", f"p-{filter}", *CREATE[3:], "--source", "rows.csv", "--delta", "1e-6")
        assert run(*arguments, "--filter", filter)[0] == 0
        shown = json.loads(run("dataset", "show", f"p-{filter}", "--home", "site", "--json")[1])
        assert shown["blocks"][0]["filter"] == filter


def test_figures_of_the_rows_are_told_to_the_steward_who_asks_for_them(run: Run) -> None:
    out = created(run, "--check")[1]
    assert "4 rows" in out
    assert "age: 2 missing, 1 above" in out
    assert "sex: 1 undeclared" in out


def test_a_schema_that_fits_no_value_of_a_column_is_not_declared_after_a_look(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,age,sex\na,30,F\nb,40,M\nc,,\n")
    status, out, err = created(run, "--check")
    assert (status, "sex: 1 missing, 2 undeclared" in out) == (2, True)
    assert "fits no value of sex, so nothing is declared" in err
    assert not (tmp_path / "site" / "datasets" / "patients.toml").exists()
    assert "everything fits" not in created(run)[1]
    assert run("dataset", "show", "patients", "--home", "site")[0] == 0
    (tmp_path / "rows.csv").write_text("who,age,sex\n")
    assert run("dataset", "create", "empty", *CREATE[3:], "--source", "rows.csv", "--check")[0] == 0


def test_a_frozen_ledger_is_said_to_be_why_nothing_is_answered(run: Run) -> None:
    created(run)
    run("ledger", "freeze", "--home", "site")
    assert "the site's ledger is frozen" in run("dataset", "show", "patients", "--home", "site")[1]
    assert "thebes ledger thaw --home" in run("dataset", "list", "--home", "site")[1]
    run("ledger", "thaw", "--home", "site")
    assert "frozen" not in run("dataset", "show", "patients", "--home", "site")[1]


def test_more_than_a_data_set_has_is_granted_with_a_warning(run: Run) -> None:
    created(run)
    grant = ("dataset", "grant", "patients", "--home", "site", "--kinds", "query")
    assert "patients has epsilon 2 for everybody together" in run(*grant, "--to", "ana", "--epsilon", "2.5")[2]
    assert run(*grant, "--to", "bob", "--epsilon", "2")[::2] == (0, "")


def test_a_rule_that_an_earlier_one_goes_before_is_added_with_a_warning(run: Run) -> None:
    created(run)
    grant = ("dataset", "grant", "patients", "--home", "site", "--kinds", "query")
    assert run(*grant, "--to", "ana", "--epsilon", "2")[2] == ""
    assert run(*grant, "--to", "bob", "--epsilon", "0.1")[2] == ""
    assert run(*grant, "--to", "ana", "--epsilon", "0.1", "--noise", "coordinator")[2] == ""
    err = run(*grant, "--to", "*", "--epsilon", "0.5")[2]
    assert "rule 1 of policy.toml comes first, and decides on some of this by its epsilon of 2" in err
    assert "rule 2 of" in err
    assert "rule 3 of" not in err


def test_lines_that_are_no_rows_are_told_by_reason_and_are_never_many_by_accident(run: Run, tmp_path: Path) -> None:
    """A file in another encoding once lost half of its rows without a word."""
    rows = [f"p,{20 + n % 60},{('female', 'Müller')[n % 2]}" for n in range(5000)]
    (tmp_path / "rows.csv").write_bytes("\n".join(["who,age,sex", *rows]).encode("latin-1"))
    for more in ((), ("--check",)):
        status, out, err = created(run, *more)
        assert (status, out) == (2, "")
        assert "--skip-bad-lines" in err
        assert "2,500 with a value that is not text in UTF-8 (the first is line 3)" in err
    status, out, _ = created(run, "--check", "--skip-bad-lines")
    assert (status, "2500 rows" in out, "2,500 lines cannot be read as rows" in out) == (0, True, True)


def test_a_line_or_two_that_are_no_rows_are_told_and_need_no_word(run: Run, tmp_path: Path) -> None:
    lines = ["who,age,sex", *["p,30,female"] * 500, "q,31", "q,32,male,more", "q,33,male"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    status, out, _ = created(run)
    assert status == 0
    assert (
        "2 lines cannot be read as rows and stay out of every answer: 1 with too few fields (the first is line 502)"
        in out
    )
    assert "501" not in out, "how many are rows is not told unless it is asked for"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--source", "absent.csv"), "absent.csv"),
        (("--source", "rows.txt"), "--source"),
        (("--source", "rows.sqlite"), "#table"),
        (("--source", "postgresql://me:secret@host/db#t"), "password"),
        (("--source", "postgresql://me@host/db"), "table"),
        (("--filter", "strong"), "filter"),
        (("--filter", "zcdp"), "delta"),
        (("--epsilon", "0"), "epsilon"),
        (("--delta", "2"), "delta"),
        (("--schema", "absent.toml"), "--schema"),
    ],
)
def test_what_cannot_work_is_refused_and_nothing_is_declared(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    status, _, err = created(run, *arguments)
    assert status in (1, 2)
    assert told in err
    assert "secret" not in err
    assert DataSets(SiteHome(tmp_path / "site")).names() == []


def test_a_source_without_a_declared_column_is_refused_by_its_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,age\na,1\n")
    status, _, err = created(run)
    assert status == 2
    assert "sex" in err


def test_other_terms_for_the_same_name_are_refused(run: Run) -> None:
    created(run)
    assert "declared already" in created(run)[2]
    run("dataset", "remove", "patients", "--home", "site")
    status, _, err = run(*CREATE[:-1], "20", "--source", "rows.csv")
    assert status == 2
    assert "was declared before with epsilon 2 and delta 0" in err


def test_the_same_name_gets_no_second_budget_by_growing_or_no_more_growing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.replace('"string"\nkey', '"integer"\nkey'))
    created(run)
    run("dataset", "remove", "patients", "--home", "site")
    growing = (*CREATE[:-1], "2", "--block-by", "user:10")
    status, _, err = run(*growing)
    assert (status, "was declared before as one table" in err) == (2, True)
    status, _, err = run(*(each.replace("patients", "visits") for each in growing))
    assert status == 0, err
    run("dataset", "remove", "visits", "--home", "site")
    status, _, err = run(*(each.replace("patients", "visits") for each in CREATE[:-1]), "2", "--source", "rows.csv")
    assert (status, "was declared before as blocks of rows" in err) == (2, True)


def test_a_schema_that_is_not_there_is_named_with_the_way_to_one(run: Run) -> None:
    status, _, err = run(*CREATE[:5], "--schema", "lost.toml", "--epsilon", "2", "--source", "rows.csv")
    assert status == 2
    assert "lost.toml" in err
    assert "thebes dataset propose" in err
    assert "Error" not in err


@pytest.mark.parametrize(
    ("written", "meant"), [("lo = 0", "low"), ("minimum = 0", "low"), ("max = 1", "high"), ("value = [1]", "values")]
)
def test_a_misspelt_key_of_a_schema_is_asked_back(run: Run, tmp_path: Path, written: str, meant: str) -> None:
    (tmp_path / "schema.toml").write_text(f"{SCHEMA}\n[columns.size]\ntype = 'integer'\n{written}\n")
    status, _, err = created(run)
    assert status == 2
    assert f"columns.size.{written.split()[0]}: " in err
    assert f"did you mean {meant}?" in err


def test_a_misspelt_key_comes_before_what_is_missing_for_that(run: Run, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.replace("unit =", "unite ="))
    assert "thebes: unite: " in created(run)[2]
    assert "did you mean unit?" in created(run)[2]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--epsilon", "0"), ("--epsilon", "-1"), ("--delta", "1"), ("--delta", "-1"), ("--noise", "nowhere")],
)
def test_a_grant_names_the_option_that_is_wrong_and_no_line_of_the_policy(
    run: Run, tmp_path: Path, option: str, value: str
) -> None:
    created(run)
    before = (tmp_path / "site" / "policy.toml").read_bytes() if (tmp_path / "site" / "policy.toml").exists() else b""
    amounts = {"--epsilon": "1", option: value}
    told = [word for pair in amounts.items() for word in pair]
    status, _, err = run("dataset", "grant", "patients", "--home", "site", "--to", "ana", "--kinds", "query", *told)
    assert status == 2
    assert err.startswith(f"thebes: {option}: ")
    assert "policy.toml" not in err
    assert (tmp_path / "site" / "policy.toml").exists() == bool(before)


def test_a_grant_names_what_exists(run: Run) -> None:
    created(run)
    grant = ("dataset", "grant", "patients", "--home", "site", "--to", "ana", "--epsilon", "1")
    assert "--kinds" in run(*grant, "--kinds", "median")[2]
    assert run("dataset", "grant", "visits", *grant[3:], "--kinds", "query")[0] == 2
    assert run(*grant, "--kinds", "query", "--noise", "nowhere")[0] == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("told", [("--to", "ana,bob"), ("--to", "ana", "--to", "bob"), ("--to", " ana , bob,ana")])
def test_names_with_commas_between_are_as_many_people(run: Run, tmp_path: Path, told: tuple[str, ...]) -> None:
    created(run)
    grant = ("dataset", "grant", "patients", "--home", "site", "--epsilon", "1", "--kinds", "query", "--kinds", "train")
    status, out, err = run(*grant, *told)
    assert (status, err) == (0, "")
    assert out.startswith("ana, bob may ask query, train about patients")
    (rule,) = PolicyFile(tmp_path / "site" / "policy.toml")().rules
    assert rule.requestors == ("ana", "bob")
    assert rule.kinds == ("query", "train")


@pytest.mark.few(1)
@pytest.mark.parametrize("told", ["", ",", "ana,", "ana,,bob"])
def test_an_empty_name_among_them_is_a_mistake(run: Run, tmp_path: Path, told: str) -> None:
    created(run)
    status, _, err = run(
        "dataset", "grant", "patients", "--home", "site", "--epsilon", "1", "--kinds", "query", "--to", told
    )
    assert status == 2
    assert "--to" in err
    assert PolicyFile(tmp_path / "site" / "policy.toml")().rules == ()


def test_columns_are_named_as_people_are(run: Run) -> None:
    created(run)
    asked = ("dataset", "query", "patients", "--home", "site", "--epsilon", "1", "--quote", "--json")
    by_one, by_two = [
        json.loads(run(*asked, "--statistic", "count", *by)[1])
        for by in (("--by", "sex"), ("--by", "sex", "--by", "sex"))
    ]
    assert by_one == by_two  # named twice is once
    status, _, err = run(*asked, "--statistic", "mean", "--column", "age,sex")
    assert status == 2
    assert "names 2 columns" in err
    for columns in (("--column", "age,sex"), ("--column", "age", "--column", "sex")):
        status, _, err = run(*asked, "--statistic", "correlation", *columns)
        assert (status, "sex" in err) == (2, True)  # both were read: no correlation with words


MEAN = ("dataset", "query", "patients", "--home", "site", "--epsilon", "0.5", "--statistic", "mean", "--column", "age")


def test_a_steward_is_told_which_of_the_own_values_did_not_fit_and_nobody_else_is(run: Run) -> None:
    created(run)
    status, out, err = run(*MEAN, "--by", "sex", "--json")
    assert status == 0
    assert err.splitlines() == [
        "thebes: warning: age: 50 % without a value of its type, 25 % above 100, cut to it",
        "thebes: warning: sex: 25 % not among the declared values",
    ]
    assert "cut to it" not in out
    assert "rows_fit" not in out
    again = run(*MEAN, "--by", "sex", "--json")
    assert (again[0], again[2]) == (0, "")  # the same again is answered without reading a row
    _, _, err = run(*MEAN, "--where", "sex = 'male' AND age IS NULL")
    assert err.splitlines() == [
        "thebes: warning: age has no usable value, so this says nothing (100 % without a value of its type)"
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("ends", [KeyboardInterrupt, OSError("rows.csv: nonsense"), ValueError("nonsense")])
@pytest.mark.parametrize("form", ["words", "standard output", "file"])
def test_an_answer_that_was_paid_for_is_told_before_a_second_look_at_the_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str, ends: BaseException | type[BaseException]
) -> None:
    def misfits(*_: object) -> None:
        raise ends

    created(run)
    monkeypatch.setattr("thebes.data.engines.table.EngineTable.misfits", misfits)
    json_ = {"words": (), "standard output": ("--json",), "file": ("--json", "answer.json")}[form]
    status, out, err = run(*MEAN, *json_)
    assert status == 0
    (line,) = err.splitlines()
    assert line.startswith("thebes: warning: which of the rows' values did not fit is not known")
    assert "nonsense" not in line
    if form == "words":
        assert "It cost epsilon 0.5. It came from the mechanism." in out
    else:
        told = json.loads(out if form == "standard output" else (tmp_path / "answer.json").read_text())
        assert told["cost"]["epsilon"] == 0.5


def test_a_question_that_is_only_priced_says_nothing_of_values(run: Run) -> None:
    created(run)
    assert run(*MEAN, "--quote")[2] == ""
    assert run(*MEAN[:-4], "--statistic", "count")[2] == ""


def test_a_policy_that_is_none_is_not_added_to(run: Run, tmp_path: Path) -> None:
    created(run)
    (tmp_path / "site" / "policy.toml").write_text("allow everything")
    grant = ("dataset", "grant", "patients", "--home", "site", "--to", "ana", "--epsilon", "1", "--kinds", "query")
    assert run(*grant)[0] == 2
    assert (tmp_path / "site" / "policy.toml").read_text() == "allow everything"


def test_databases_and_described_sources_are_declared_by_a_word(run: Run, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.sqlite") as db:
        db.execute("CREATE TABLE people (who TEXT, age INTEGER, sex TEXT)")
    assert created(run, "--source", "rows.sqlite#people")[0] == 0
    kept = read(tmp_path / "site" / "datasets" / "patients.toml", "patients").source
    assert kept == {"kind": "sqlite", "path": str(tmp_path / "rows.sqlite"), "table": "people"}
    (tmp_path / "where.toml").write_text('[source]\nkind = "csv"\npath = "rows.csv"\nmissing = ["nonsense"]\n')
    arguments = ("dataset", "create", "others", *CREATE[3:], "--source", "where.toml")
    assert run(*arguments)[0] == 0
    kept = read(tmp_path / "site" / "datasets" / "others.toml", "others").source
    assert kept == {"kind": "csv", "path": str(tmp_path / "rows.csv"), "missing": ["nonsense"]}


def test_a_persons_home_is_not_a_sites(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "person.db").write_text("")
    status, _, err = created(run)
    assert status == 2
    assert "person's home" in err


def test_a_coordinators_home_stands_for_its_own_site(run: Run, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir(mode=0o700)
    (tmp_path / "site" / "admin.token").write_text("x")
    assert created(run)[0] == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("target", ["nowhere/answer.json", "."])
def test_what_could_not_be_written_is_refused_before_anything_is_paid(run: Run, target: str) -> None:
    assert created(run)[0] == 0
    with Ledger(f"sqlite:///{Path('site/ledger.db').resolve()}", keeper=NoKeeper()) as ledger:
        before = ledger.head()
        status, out, err = run(*MEAN, "--json", target)
        assert (status, out) == (2, "")
        assert "--json: cannot write" in err
        made = ("dataset", "synthesize", "patients", "--home", "site", "--rows", "5", "--epsilon", "1")
        status, _, err = run(*made, "--out", "made.csv", "--json", target)
        assert (status, Path("made.csv").exists()) == (2, False)
        Path("made.csv.certificate.json").symlink_to("nowhere/made.json")
        status, _, err = run(*made, "--out", "made.csv")
        assert status == 2
        assert "--out: cannot write" in err
        assert ledger.head() == before
    assert not Path("made.csv").exists()
    assert not Path("nowhere").exists()


def test_every_command_looks_first_whether_its_json_can_be_written(run: Run) -> None:
    assert run("--version")[0] == 0  # by now every command is there
    found = []

    def look(command: Any, name: str) -> None:
        for each, sub in getattr(command, "commands", {}).items():
            look(sub, f"{name} {each}")
        for option in command.params:
            if "--json" in option.opts:
                found.append(name)
                if not name.startswith(" ledger "):  # where what follows may be the ledger
                    with pytest.raises(Mistake, match="cannot write"):
                        option.callback(None, option, "nowhere/x.json")

    look(typer.main.get_command(main.app), "")
    assert len(found) > 30
    for command in ("show", "verify", "freeze", "thaw"):
        status, _, err = run("ledger", command, "--home", ".", "--json", "nowhere/x.json")
        assert (status, "--json: cannot write" in err) == (2, True)
    assert not Path("ledger.db").exists()


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_is(run: Run) -> None:
    for name, before in (("there.json", "kept"), ("new.json", None)):
        if before is not None:
            Path(name).write_text(before)
        assert json_target(name) == name
        assert (Path(name).read_text() if Path(name).exists() else None) == before
    assert (json_target("-"), json_target(None), json_target("/dev/null")) == ("-", None, "/dev/null")


def test_an_answer_that_is_paid_for_is_printed_where_its_file_is_lost_meanwhile(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(run)
    monkeypatch.setattr("thebes.cli.output.check_writable", lambda *_: None)
    status, out, err = run(*MEAN, "--json", "nowhere/answer.json")
    assert (status, "cannot write" in err) == (2, True)
    assert json.loads(out)["certificate"]["epsilon"]

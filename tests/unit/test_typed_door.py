"""A requestor's script is checked by `mypy --strict` against installed Thebes: nothing it touches first is `Any`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from datetime import datetime
from typing import Any, assert_type

import pandas as pd
import thebes
from numpy.typing import NDArray
from thebes.person.access import PersonHome
from thebes.privacy.certificate import Certificate
from thebes.privacy.measurement import Interval
from thebes.privacy.model_quality import Quality
from thebes.requestor.curve import ErrorCurve
from thebes.requestor.handle import Handle
from thebes.requestor.quote import Quote
from thebes.requestor.server import Server
from thebes.requestor.refusals import SiteRefusal, SitesRefused
from thebes.requestor.tables import Listing
from thebes.sql.answer import SqlAnswer
from thebes.sql.private_table import PrivateTable
from thebes.sql.question import SqlQuestion
from thebes.tasks.release import FittedModel, Release

document = thebes.task.median("SELECT age FROM profile.demographics", epsilon=1)
assert_type(document, dict[str, Any])
release = thebes.simulate(document, {"age": [1, 2, 3]}, seed=1)
assert_type(release, Release)
assert_type(release.certificate, Certificate)
assert_type(release.interval(0.95), Interval | None)
assert_type(release.explanation, str | None)
assert_type(release.quality, Quality | None)
assert_type(release.certificate.epsilon, float)
assert_type(release.to_frame(), pd.DataFrame)
assert_type(release.to_frame("pandas")["value"], "pd.Series[Any]")
assert_type(release.model, FittedModel)
assert_type(release.model.predict([[1.0]]), NDArray[Any])

server = thebes.connect("http://127.0.0.1:8000")
assert_type(server, Server)
assert_type(server.login("ana", "secret"), datetime)
assert_type(server.quote(document), Quote)
assert_type(server.submit(document), Handle)
assert_type(server.submit(document).wait(timeout=1), Release)
assert_type(server.quote(document).allowed, bool | None)
assert_type(server.quote(document).to_frame(), pd.DataFrame)
assert_type(server.curve(document), ErrorCurve)
handle = server.task("1")
assert_type(handle, Handle)
assert_type(handle.status, str)
assert_type(handle.release, Release | None)
assert_type(server.query("patients", "count", epsilon=1), Release)
assert_type(server.train("patients", model="LogisticRegression", inputs=["a"], output="b", epsilon=1, delta=0), Release)
answer = server.sql("SELECT COUNT(*) FROM patients", epsilon=1)
assert_type(answer, SqlAnswer)
assert_type(answer.to_frame(), pd.DataFrame)
assert_type(server.explain_sql("SELECT COUNT(*) FROM patients", epsilon=1), SqlQuestion)
with thebes.open_data({"age": [1]}, {}, epsilon=1) as table:
    assert_type(table, PrivateTable)
    assert_type(table.sql("SELECT COUNT(*) FROM data", 0.1), SqlAnswer)
try:
    handle.wait(progress="auto")
except SitesRefused as refused:
    assert_type(refused.sites["south"], SiteRefusal)
assert_type(server.tasks(), Listing)
assert_type(server.schemas(), dict[str, Any])
with thebes.open_person("home") as me:
    assert_type(me, PersonHome)
    assert_type(me.tasks(), list[dict[str, Any]])
    me.accept(me.tasks()[0]["task_id"])
"""


@pytest.mark.slow
def test_what_a_requestor_and_a_person_touch_has_types(tmp_path: Path) -> None:
    wrong = 'import thebes\nthebes.connect("http://127.0.0.1:8000").wait\nthebes.open_person("home").acept("1")\n'
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mistaken.py").write_text(wrong)
    apart = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "script.py", "mistaken.py"],
        cwd=tmp_path,
        env=apart,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert not [line for line in found if line.startswith("script.py")], done.stdout + done.stderr
    assert [line.split(":")[1] for line in found] == ["2", "3"], done.stdout + done.stderr


def test_help_on_what_they_touch_teaches_by_an_example() -> None:
    import thebes
    from thebes.person.access import PersonHome
    from thebes.privacy.certificate import Certificate
    from thebes.requestor.handle import Handle
    from thebes.requestor.quote import Quote
    from thebes.requestor.refusals import SitesRefused
    from thebes.requestor.server import Server
    from thebes.sql.answer import SqlAnswer
    from thebes.tasks.release import Release

    doors = (
        thebes.simulate,
        thebes.connect,
        thebes.open_person,
        thebes.open_data,
        Server.query,
        Server.sql,
        Server.train,
    )
    told = (
        *doors,
        Server,
        Handle,
        Handle.wait,
        Quote,
        Release,
        Release.to_frame,
        Certificate,
        PersonHome,
        SitesRefused,
    )
    assert not [one.__qualname__ for one in (*told, SqlAnswer) if "Example:" not in (one.__doc__ or "")]

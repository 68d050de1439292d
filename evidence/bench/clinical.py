"""Rows of REDCap and OpenSpecimen beside the same rows in a CSV file: one question through a table over each.

The servers are our own, each in a process of its own; what they take to answer is part of the seconds, so the
processor time of the reading side stands beside them.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from thebes.data.engines.source import table_of
from thebes.data.filter import read_filter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term

RECORDS = 20_000
PAGE = 900
ROUNDS = 3
RARE = "age = 33 AND weight > 100"
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "who": {"type": "string", "key": True},
        "age": {"type": "integer", "low": 0, "high": 100},
        "weight": {"type": "float", "low": 30, "high": 160},
        "sex": {"type": "string", "values": ["1", "2"]},
        "smokes": {"type": "boolean"},
    },
}


def people() -> list[dict[str, str]]:
    return [
        {
            "who": f"P{n}",
            "age": str(n * 7 % 100),
            "weight": f"{40 + n * 13 % 1000 / 10:.1f}",
            "sex": "12"[n % 2],
            "smokes": str(n % 3 % 2),
        }
        for n in range(RECORDS)
    ]


def serve(name: str) -> None:
    """One server with these people in it, until its input ends."""
    if name == "redcap":
        from tests.support.redcap import Entry, Project, RedcapServer, Variable

        variables = (
            Variable("who"),
            Variable("age", validation="integer"),
            Variable("weight", validation="number"),
            Variable("sex", kind="radio", choices=("1", "2")),
            Variable("smokes", kind="yesno"),
        )
        server: Any = RedcapServer(Project(variables, [Entry(p["who"], dict(p)) for p in people()]))
        source = {"kind": "redcap", "url": server.url}
        secret = server.token
    else:
        from tests.support.openspecimen import Bank, OpenSpecimenServer, Value

        kinds = {"id": "INTEGER", "who": "STRING", "age": "INTEGER", "weight": "FLOAT", "sex": "STRING"}
        kinds["smokes"] = "BOOLEAN"
        rows: list[dict[str, Value]] = [
            {
                "P.id": n + 1,
                "P.who": p["who"],
                "P.age": int(p["age"]),
                "P.weight": float(p["weight"]),
                "P.sex": p["sex"],
                "P.smokes": p["smokes"] == "1",
            }
            for n, p in enumerate(people())
        ]
        server = OpenSpecimenServer(Bank({f"P.{field}": kind for field, kind in kinds.items()}, rows))
        columns = {field: f"P.{field}" for field in kinds if field != "id"}
        source = {"kind": "openspecimen", "url": server.url, "user": "reader", "row": "P.id", "columns": columns}
        secret = server.password
    print(json.dumps({"source": source, "secret": secret}), flush=True)
    sys.stdin.read()
    server.close()


def run() -> dict[str, Any]:
    schema = schema_of(SCHEMA)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "people.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(SCHEMA["columns"]))
            writer.writeheader()
            writer.writerows(people())
        asked(schema, {"kind": "csv", "path": "people.csv"}, folder)  # what the first one imports is not measured
        plain = asked(schema, {"kind": "csv", "path": "people.csv"}, folder)
        found: dict[str, Any] = {"records": RECORDS, "page": PAGE, "csv": told(plain)}
        for system in ("redcap", "openspecimen"):
            child = subprocess.Popen(
                [sys.executable, "-m", "evidence.bench.clinical", system],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            try:
                assert child.stdout is not None
                opened = json.loads(child.stdout.readline())
                (folder / system).write_text(opened["secret"])
                (folder / system).chmod(0o600)
                secret = {"token_file" if system == "redcap" else "password_file": system}
                measured = asked(schema, {**opened["source"], **secret, "page": PAGE}, folder)
            finally:
                child.communicate("")
            assert measured["totals"] == plain["totals"], "the same rows give the same answer"
            found[system] = told(measured) | {
                "seconds to those of csv": measured["seconds"] / plain["seconds"],
                "processor seconds to those of csv": measured["processor"] / plain["processor"],
                "rare condition to all rows": measured["rare"] / measured["seconds"],
            }
    return found


def asked(schema: Schema, source: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The quickest of some rounds: others work on the same machine."""
    return min((once(schema, source, folder) for _ in range(ROUNDS)), key=lambda measured: measured["seconds"])


def once(schema: Schema, source: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Sums of some columns, from opening the source to the answer; then for a condition that few fulfil."""
    wanted = Sums((Term(), Term((Factor("age", 1, 1),)), Term((Factor("weight", 1, 1),))), axes=(_axis("sex"),))
    started, processor = time.perf_counter(), time.process_time()
    table = table_of(schema, source, folder=folder)
    totals = table.sums(wanted).tolist()
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    started = time.perf_counter()
    totals += table.sums(Sums(wanted.terms, axes=wanted.axes, where=read_filter(RARE, schema))).tolist()
    rare = time.perf_counter() - started
    table.close()
    return {"totals": totals, "seconds": seconds, "processor": used, "rare": rare}


def told(measured: dict[str, Any]) -> dict[str, float]:
    return {"seconds": measured["seconds"], "records a second": RECORDS / measured["seconds"]}


def _axis(column: str) -> Axis:
    return Axis(column, values=tuple(SCHEMA["columns"][column]["values"]))


if __name__ == "__main__":
    serve(sys.argv[1])

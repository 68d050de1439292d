"""`python -m evidence.fuzz.seeds [TARGET...]`: what fuzzing begins with, written anew from documents, models, tokens
and copies as they really are, all of made-up people. What broke something once (`mended-*`), or was made by hand
(`kept-*`), stays."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evidence.fuzz.running import CORPUS
from thebes.cli.homes import archive
from thebes.learning.graph.document import Graph, Input, Node, Weight, write_model
from thebes.learning.graph.operations import Reference
from thebes.learning.graph.weights import pack
from thebes.tasks import registry
from thebes.tokens import Authority, Context, Enrolment, codec
from thebes.wire import frames, link
from thebes.wire.homes import HomeRole

ROOT = Path(__file__).parents[2]
LARGEST = 2**14
Seeds = Iterator[tuple[str, bytes]]


def told(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def samples() -> list[Any]:
    """Return the sample documents of every kind."""
    return [sample for type_ in registry.types() for sample in registry.samples(type_)]


def documents() -> Seeds:
    for sample in samples():
        yield sample.name, told(dict(sample.document))


def releases() -> Seeds:
    import thebes

    wanted = (
        "basic-mean",
        "basic-histogram",
        "integrated-LinearRegression",
        "draw-discard-l1",
        "gradient-privunit",
    )
    for sample in samples():
        if sample.name.startswith(wanted):
            released = thebes.simulate(dict(sample.document), sample.people, seed=1)
            yield sample.name, told(released.as_json())


def graphs() -> Seeds:
    import torch

    from thebes.torch import encode

    nodes = (
        Node("c", "aten.conv2d.default", {"input": Reference("x"), "weight": Reference("w"), "padding": (1, 1)}),
        Node("p", "aten.max_pool2d.default", {"self": Reference("c"), "kernel_size": (2, 2), "ceil_mode": True}),
        Node("s", "aten.cat.default", {"tensors": (Reference("p"), Reference("p")), "dim": 1}),
        Node("m", "aten.mean.dim", {"self": Reference("s"), "dim": (2, 3)}),
        Node("out", "aten.gelu.default", {"self": Reference("m"), "approximate": "tanh"}),
    )
    graph = Graph((Input("x", (1, 2, 6, 6)),), (Weight("w", (2, 2, 3, 3)),), nodes, "out")
    yield "picture", write_model(graph, {"w": np.ones((2, 2, 3, 3), np.float32)}).encode()
    shapes = {"t": (3, 4), "i": (8, 4), "h": (8, 2)}
    layers = (
        Node("e", "thebes.embedding", {"weight": Reference("t"), "indices": Reference("x"), "padding_idx": 0}),
        Node("a", "thebes.attention", {"query": Reference("e"), "key": Reference("e"), "value": Reference("e")}),
        Node("l", "thebes.lstm", {"input": Reference("a"), "weight_ih": Reference("i"), "weight_hh": Reference("h")}),
        Node("out", "aten.select.int", {"self": Reference("l"), "dim": 1, "index": -1}),
    )
    named = tuple(Weight(name, shape) for name, shape in shapes.items())
    sequence = Graph((Input("x", (1, 5)),), named, layers, "out")
    yield "sequence", write_model(sequence, {n: np.ones(s, np.float32) for n, s in shapes.items()}).encode()
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    for name, loss in (("numbers", torch.nn.MSELoss()), ("classes", torch.nn.CrossEntropyLoss())):
        yield name, "\n\n".join(encode(small, loss)).encode()


def weights() -> Seeds:
    from evidence.fuzz.targets.weights import WEIGHTS

    values = {each.name: np.arange(each.size, dtype=np.float32).reshape(each.shape) for each in WEIGHTS}
    yield "counting", pack(values, WEIGHTS)
    yield "zero", pack({name: 0 * value for name, value in values.items()}, WEIGHTS)


def _messages() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "floats", {"id": "a1", "kind": "ask", "payload": {"weights": [n / 8 for n in range(70)], "version": 3}}
    yield "whole", {"id": "a2", "kind": "contribution", "payload": {"counts": list(range(70)), "name": "Ana"}}
    packed = np.arange(70, dtype="<f4") / 100
    yield (
        "packed",
        {"id": "a3", "kind": "contribution", "payload": {"weights": frames.plain({"w": packed.view("u1")})["w"]}},
    )
    yield "plain", {"id": "a4", "kind": "ping", "payload": None}


def frames_() -> Seeds:
    for name, message in _messages():
        yield name, frames.write(frames.split(message))
    long = {"payload": {"weights": [1.5] * 10_000}}
    yield "deflated", frames.write(frames.split(long), public=True)


def links() -> Seeds:
    for name, message in _messages():
        body = link.write_envelope(message)
        yield f"envelope-{name}", b"e" + body
        yield f"pieces-{name}", b"p" + b"".join(len(p).to_bytes(4, "big") + p for p in link.pieces(name, body))


def contributions() -> Seeds:
    payloads: tuple[dict[str, Any], ...] = (
        {"value": 1.5},
        {"value": None, "failure": 2},
        {"counts": list(range(70)), "name": "Ana"},
        {"weights": [n / 8 for n in range(70)]},
        {"weights": frames.plain({"w": (np.arange(70, dtype="<f4") / 100).view("u1")})["w"], "lane": 1},
        {"cells": [1.0, None, 2.5], "cell": None},
    )
    for number, payload in enumerate(payloads):
        message = {"ask_id": "a", "part": "1", "contributor": "c" * 32, "payload": payload}
        digit = bytes([ord("0") + number])
        yield f"{number}-json", digit + b"j" + told(message)
        yield f"{number}-frame", digit + b"f" + frames.write(frames.split(message))


def queries() -> Seeds:
    featurizers = (
        "SELECT age FROM profile.demographics",
        "SELECT avg(steps) AS steps, max(day) AS day FROM health.walk WHERE day > '2026-01-01' GROUP BY day HAVING 1",
        "WITH a AS (SELECT x FROM p.t UNION SELECT 1) SELECT x, CASE WHEN x > 1 THEN 2 END FROM a",
        "SELECT row_number() OVER (PARTITION BY a.x ORDER BY b.y DESC) AS n FROM p.t AS a JOIN p.u AS b ON a.i = b.i",
        "VALUES (1, 'two', NULL), (0x10, -3.5e2, upper('x'))",
        "SELECT strftime('%Y', born) FROM p.t WHERE name LIKE '%a\\_%' ESCAPE '\\' AND x IN (1, 2) -- so\nLIMIT 3",
    )
    wheres = (
        "age >= 18 AND sex = 'female'",
        "NOT (smoker OR weight BETWEEN 50 AND 60.5) AND age NOT IN (1, 2, 3)",
        "admitted > '2026-01-31T09:30:00Z' AND admitted IS NOT NULL",
    )
    for letter, texts in (("f", featurizers), ("w", wheres)):
        for number, text in enumerate(texts):
            yield f"{letter}{number}", (letter + text).encode()


def copies() -> Seeds:
    with tempfile.TemporaryDirectory() as scratch:
        stage, file = Path(scratch) / "home", Path(scratch) / "copy"
        (stage / "cache").mkdir(parents=True)
        (stage / "policy.toml").write_text("[[allow]]\n", encoding="utf-8")
        (stage / "cache" / ("long" * 40)).write_bytes(bytes(range(256)))
        archive.write(stage, file, archive.Copied(HomeRole.SITE, 0.0, "1"), None)
        yield "site", file.read_bytes().rstrip(b"\0") + bytes(1024)


def sealed() -> Seeds:
    from evidence.fuzz.targets import sealed as target

    content = target.written()
    yield "sealed", b"s" + target.sealed(content)
    yield "opened", b"o" + content


def statements() -> Seeds:
    readable = (
        "SELECT age FROM profile.demographics",
        "SELECT avg(steps) AS steps, max(day) AS day FROM health.walk WHERE day > '2026-01-01' GROUP BY day HAVING 1",
        "WITH a AS (SELECT age FROM profile.demographics) SELECT age, CASE WHEN age > 1 THEN 2 END FROM a",
        "SELECT row_number() OVER (PARTITION BY a.name ORDER BY b.steps DESC) AS n"
        " FROM profile.demographics AS a JOIN health.walk AS b ON a.id = b.id",
        "SELECT strftime('%Y', born) FROM profile.demographics WHERE name LIKE '%a_%' AND id IN (1, 2) LIMIT 3",
    )
    unread = (
        "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a WHERE x < 50) SELECT x FROM a",
        "SELECT word FROM profile.secrets",
        "SELECT group_concat(sql) FROM sqlite_master",
        "SELECT hex(zeroblob(100)) || quote(name) FROM profile.demographics",
    )
    for number, text in enumerate(readable):
        yield f"f{number}", b"f" + text.encode()
    for number, text in enumerate(unread):
        yield f"1-{number}", b"1" + text.encode()
    yield from ((name, content) for name, content in queries() if name.startswith("w"))


def sites() -> Seeds:
    """Collect what a real site answers to what the target asks, and what else a site may say."""
    import asyncio

    from evidence.fuzz.targets.sites import ASKED
    from tests.support.federation import PATIENTS, Gathering
    from tests.support.site_home import EVERYBODY, declare
    from thebes.database import private_files
    from thebes.site.algorithm_process import Office
    from thebes.site.home import SiteHome

    with tempfile.TemporaryDirectory() as scratch:
        home, rows = SiteHome(Path(scratch) / "site"), [{"age": 20 + n, "sex": "fm"[n % 2]} for n in range(60)]
        schema = {**PATIENTS, "max_rows_per_unit": 1}
        declare(home, pd.DataFrame(rows), schema=schema, epsilon=1000.0, delta=1e-3)
        private_files.write(home.policy, EVERYBODY)
        office = Office(home, "site")
        for letter, document in ASKED.items():
            said: list[dict[str, Any]] = []

            async def answer(message: dict[str, Any], said: list[dict[str, Any]] = said) -> dict[str, Any]:
                told = office.answer(message)
                if message["kind"] == link.Word.ASK:
                    body = link.read_envelope(link.write_envelope({**told, "id": "a"}), arrays=False)
                    said.append({**body, "task": "$task", "part": "$part", "ask_id": "$ask"})
                return told

            async def ask(
                document: dict[str, Any] = document, answer: Any = answer, said_by: str = letter.decode()
            ) -> None:
                async with Gathering(Path(scratch) / said_by) as there:
                    await there.near(site=answer)
                    assert (await there.asked(document))["status"] == "done"

            asyncio.run(ask())
            yield f"{letter.decode()}-json", letter + told(said[0])
            yield f"{letter.decode()}-frame", letter + link.write_envelope(said[0])
        for each in (office.ledger, office.outbox, office.audit):
            each.close()
    refused = {"kind": "refusal", "id": "a", "task": "$task", "part": "$part", "reason": "not here"}
    yield "refused", b"c" + told({**refused, "code": "policy"})
    yield "busy", b"c" + told({**refused, "code": "busy"})


def asks() -> Seeds:
    from tests.support.site_home import ask

    count = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
    mean = {**count, "statistic": "mean", "column": "age", "where": "age > 30 AND age < 60"}
    exact = {**count, "statistic": "histogram", "column": "age", "bins": [0, 50, 100], "noise": "coordinator"}
    for name, document in (("count", count), ("mean", mean), ("exact", exact)):
        yield name, told(ask(document, task=name))
    quoted = {name: value for name, value in ask(mean).items() if name not in ("ask", "task")}
    yield "quote", told({**quoted, "kind": "quote"})
    for kind in ("closed", "describe", "ping"):
        yield kind, told({"kind": kind, "id": "a", "task": "count"})


def forms() -> Seeds:
    """Collect what the pages send, and programs of the same machine."""
    rule = {"type": "basic", "epsilon_at_most": 1, "epsilon_per_week": 2, "probability": 50, "tables": "profile.pets"}
    limits = {"local.epsilon": 5, "trusted.delta": 0.001, "delay_seconds": 60, "period_days": 7}
    columns = {"mood": {"type": "integer", "description": "1 to 5"}}
    delivery = {"delivery": "0" * 32, "after": 0, "part": 0, "last": True, "rows": {"pets": [{"species": "cat"}]}}
    bodies: dict[str, Any] = {
        "a": {**rule, "requestor": "ana", "server": "trusted", "min_count": 11, "delta_at_most": ""},
        "b": {"rule": rule},
        "c": limits,
        "d": {"requestor": "ana", "epsilon": 1},
        "e": {"confirm": "destroy nothing"},
        "f": {"name": "friends", "code": "abc", "pin": "00" * 32, "names": "on"},
        "g": {"rows": "forget"},
        "h": {"decision": "accept", "brief": "yes"},
        "i": {"tables": {"entry": {"description": "days", "columns": columns}}, "release": 1},
        "j": {"table": "pets", "rows": [{"species": "cat", "age": 3.5}]},
        "k": delivery,
        "l": {"local": {"epsilon": 3, "overall_epsilon": 9}, "caps": {"ana": {"epsilon": 1}}, "delay_seconds": 1.5},
        "m": {"rules": [{"type": "bounded", "epsilon_at_most": 1, "tables": ["profile.pets"], "min_count": 11}]},
        "n": {"code": "abc", "pin": "00" * 32, "names": "public"},
        "D": {"app": "diary", "tables": json.dumps({"entry": {"columns": columns}})},
        "E": {"name": "friends", "minimum": 3, "epoch": "2026-11", "names": "public"},
        "F": {"name": "friends", "epoch": "2026-11", "people": "ana\nben"},
        "G": {"name": "friends", "epoch": "2026-11"},
        "H": {"name": "ana", "password": "long enough for it", "role": "requestor"},
        "I": {"name": "ana", "role": "auditor"},
        "J": {"name": "ana"},
        "K": {"username": "ana", "password": "long enough for it", "then": "/tasks"},
    }
    for letter, body in bodies.items():
        yield letter, (letter.encode() + told(body))
    bound = {"bound-0-column": "age", "bound-0-kind": "range", "bound-0-low": "0", "bound-0-high": "100"}
    asked = {
        "kind": "basic", "table": "profile.demographics", "column": ["age"], "aggregator": "median", "epsilon": "1",
        "featurizer": "SELECT age FROM profile.demographics", "min_count": "20", **bound,
    }  # fmt: skip
    learned = {
        **asked, "kind": "ensemble", "subsets": "2", "subset_size": "1", "cut": "median", "output": "age",
        "expires_at": "2031-01-01T10:00", "group": "friends/2026-11",
    }  # fmt: skip
    stream = {
        "kind": "pipeline", "dataset": "taxi", "model": "LinearRegression", "output": "km", "target": "mse = 0.02",
        "bins": "hour = 24", "layers": "3, 4", "epsilon": "1", "inputs": ["km"],
    }  # fmt: skip
    written = {"kind": "basic", "mode": "json", "was": "json", "raw": json.dumps({"type": "basic", "epsilon": 1})}
    for name, form in (("basic", asked), ("ensemble", learned), ("pipeline", stream), ("json", written)):
        for letter in ("A", "B", "C"):
            yield f"{letter}-{name}", letter.encode() + told(form)


def tokens() -> Seeds:
    """A group that exists for this alone. Its parameters are written anew, too."""
    authority = Authority.create("fuzzed", "2026-11", minimum=2)
    published = authority.parameters(size=3)
    begun = Enrolment.begin(published, pin=published.digest)
    answer = authority.enrol(begun.request)
    credential = begun.finish(answer)
    kept = {"parameters": published.as_json(), "enrolment": begun.as_json(), "authority": authority.as_json()}
    (CORPUS / "group.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    here = Context("task", "00" * 32, "h0")
    texts = {"t": credential.present(here, here.report_digest(b"{}"), published), "r": begun.request, "a": answer}
    lengths = {"t": "token_bytes", "r": "request_bytes", "a": "response_bytes"}
    for letter, text in texts.items():
        yield f"{letter}-text", (letter + text).encode()
        length = int(getattr(published.verifier, lengths[letter]))
        yield (
            f"{letter}-bytes",
            letter.upper().encode() + codec.read(text, version=published.verifier.version, length=length),
        )
    records: dict[str, Any] = {"p": published, "c": credential, "e": begun, "k": authority}
    for letter, record in records.items():
        yield f"{letter}-record", letter.encode() + told(record.as_json())


def exports() -> Seeds:
    """Collect files of made-up people as other programs export them, one for each reader."""
    import io
    import zipfile

    view: dict[str, Any] = {"header": "YouTube", "title": "Watched a", "titleUrl": "https://www.youtube.com/watch?v=a"}
    view |= {"time": "2026-03-01T08:00:00.1Z", "subtitles": [{"name": "B", "url": "https://www.youtube.com/c"}]}
    yield "y-views", b"y" + told([view, {**view, "details": [{"name": "From Google Ads"}]}])
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Takeout/YouTube/Verlauf/Wiedergabeverlauf.json", told([view]))
    yield "Y-takeout", b"Y" + packed.getvalue()
    play = {"ts": "2026-03-01T08:00:00Z", "ms_played": 1500, "spotify_track_uri": "t", "shuffle": True}
    yield "s-plays", b"s" + told([{**play, "master_metadata_album_artist_name": "B", "incognito_mode": False}])
    titles = "Profile Name,Start Time,Duration,Attributes,Title,Supplemental Video Type"
    yield "n-activity", f'n{titles}\nAna,2026-03-01 08:00:00,00:42:10,,"A: Season 1: B",\nBob,,,,,HOOK\n'.encode()
    chats = {
        "android": "28.02.26, 23:05 - Ana: one two\nthree\n03.03.26, 09:00 - Bob: x\n",
        "iphone": "[2/28/26, 11:05:07\u202fPM] Bob: \u200enotice\n\u200e[3/3/26, 9:00:00\u202fAM] Ana: \u200e<x>\n",
    }
    for name, chat in chats.items():
        yield f"w-{name}", f"w{chat}".encode()
    entry = (
        '<Ntry><Amt Ccy="EUR">1.5</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-03-01</Dt></BookgDt>'
        "<BkTxCd><Domn><Cd>PMNT</Cd><Fmly><Cd>ICDT</Cd></Fmly></Domn></BkTxCd><NtryDtls><TxDtls><RltdPties><Cdtr>"
        "<Nm>B</Nm></Cdtr></RltdPties></TxDtls></NtryDtls></Ntry>"
    )
    yield "b-statement", f"b<Document><BkToCstmrStmt><Stmt>{entry}</Stmt></BkToCstmrStmt></Document>".encode()
    yield "c-n26", b"cBooking Date,Partner Name,Type,Amount (EUR)\n2026-03-01,B,Presentment,-1.50\n"
    dkb = '"Konto"\n"Buchungsdatum";"Status";"Umsatztyp";"Betrag (€)"\n"01.03.26";"Gebucht";"Ausgang";"-1.000,5 €"\n'
    yield "k-dkb", f"k{dkb}".encode()
    record = (
        '<Record type="HKQuantityTypeIdentifierStepCount" sourceName="A" unit="count" value="5" '
        'startDate="2026-03-01 10:00:00 +0200" endDate="2026-03-01 10:10:00 +0200"/>'
    )
    slept = record.replace('value="5"', 'value="HKCategoryValueSleepAnalysisAsleep"')
    for letter in "hH":
        yield letter, f'{letter}<HealthData><ExportDate value="2026-03-02"/>{record}{slept}</HealthData>'.encode()
    yield "g-daily", b"gDate,Calories (kcal),Step count\n2026-03-01,1800.5,5\n2026-03-02,1,\n"
    visit = {"topCandidate": {"placeLocation": {"latLng": "37.9\u00b0, 23.7\u00b0"}, "semanticType": "HOME"}}
    yield "l-timeline", b"l" + told({"semanticSegments": [{"startTime": "2026-03-01T08:00:00Z", "visit": visit}]})
    point = '<trkpt lat="37.9" lon="23.7"><time>2026-03-01T08:00:00Z</time></trkpt>'
    yield "x-gpx", f"x<gpx><trk><trkseg>{point}</trkseg></trk></gpx>".encode()
    event = "BEGIN:VEVENT\nUID:1\nDTSTART;TZID=Europe/Athens:20260301T100000\nDURATION:PT1H\nSUMMARY:a\nEND:VEVENT\n"
    yield "i-calendar", f"iBEGIN:VCALENDAR\n{event}END:VCALENDAR\n".encode()
    yield "t-table", b"tday,price\n2026-03-01,1.5\n2026-03-02,NA\n"
    user = "https://github.com/ana"
    yield "G-issues", b"G" + told([{"url": f"{user}/a/issues/1", "user": user, "created_at": "2026-03-01T08:00:00Z"}])


def main() -> None:
    makers: tuple[Callable[[], Seeds], ...] = (
        tokens, graphs, weights, frames_, links, contributions, documents, queries, copies, releases,
        sealed, statements, sites, asks, forms, exports,
    )  # fmt: skip
    CORPUS.mkdir(exist_ok=True)
    wanted = sys.argv[1:]
    for maker in makers:
        if wanted and maker.__name__.rstrip("_") not in wanted:
            continue
        place = CORPUS / maker.__name__.rstrip("_")
        place.mkdir(exist_ok=True)
        for old in place.iterdir():
            if not old.name.startswith(("mended-", "kept-")):
                old.unlink()
        for name, content in maker():
            if len(content) <= LARGEST:
                (place / re.sub(r"[^A-Za-z0-9=._-]", "", name)[:60]).write_bytes(content)


if __name__ == "__main__":
    main()

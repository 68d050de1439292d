"""`python -m fuzz.seeds`: what fuzzing begins with, written anew from documents, models, tokens and copies as they
really are, all of made-up people. What broke something once (`mended-*`), or was made by hand (`kept-*`), stays."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.running import CORPUS
from thebes.apps.operating import archive
from thebes.apps.operating.roles import Role
from thebes.learning.graph.document import Graph, Input, Node, Weight, write_model
from thebes.learning.graph.operations import Reference
from thebes.learning.graph.weights import pack
from thebes.tokens import Authority, Context, Enrolment, encoding
from thebes.wire import frames, link

ROOT = Path(__file__).parents[1]
LARGEST = 2**14
Seeds = Iterator[tuple[str, bytes]]


def told(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def samples() -> list[Any]:
    """What every kind is tested with."""
    sys.path.insert(0, str(ROOT / "tests" / "contract"))
    from test_kinds import SAMPLES as PEOPLE
    from test_site_kinds import SAMPLES as SITES

    return [*PEOPLE, *SITES]


def documents() -> Seeds:
    for sample in samples():
        yield sample.name, told(dict(sample.document))


def releases() -> Seeds:
    import thebes

    wanted = (
        "basic-mean-0",
        "basic-histogram-1",
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
    torch.manual_seed(0)
    small = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.LayerNorm(3), torch.nn.Linear(3, 2))
    for name, loss in (("numbers", torch.nn.MSELoss()), ("classes", torch.nn.CrossEntropyLoss())):
        yield name, "\n\n".join(encode(small, loss)).encode()


def weights() -> Seeds:
    from fuzz.targets.weights import WEIGHTS

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
        archive.write(stage, file, archive.Copied(Role.SITE, 0.0, "1"), None)
        yield "site", file.read_bytes().rstrip(b"\0") + bytes(1024)


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
            letter.upper().encode() + encoding.read(text, version=published.verifier.version, length=length),
        )
    records = {"p": published, "c": credential, "e": begun, "k": authority}
    for letter, record in records.items():
        yield f"{letter}-record", letter.encode() + told(record.as_json())


def main() -> None:
    makers: tuple[Callable[[], Seeds], ...] = (
        tokens, graphs, weights, frames_, links, contributions, documents, queries, copies, releases,
    )  # fmt: skip
    CORPUS.mkdir(exist_ok=True)
    for maker in makers:
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

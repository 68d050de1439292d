"""Everything that arrives of a group: `t` a token, `r` a request and `a` an answer to one, each as text, the same in
capitals as its bytes, and `p`, `c`, `e`, `k` the records of parameters, credential, enrolment and authority.

The group is made up: `group.json` beside the corpus holds its parameters, an enrolment that has begun and a key, all of
which exist for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from thebes.privacy.faults import Mistake
from thebes.tokens import Authority, Context, Credential, Enrolment, GroupParameters, codec, verify

GROUP = Path(__file__).parents[1] / "corpus" / "group.json"
_KEPT = json.loads(GROUP.read_text(encoding="utf-8"))
PARAMETERS = GroupParameters.from_json(_KEPT["parameters"])
ENROLMENT = Enrolment.from_json(_KEPT["enrolment"])
AUTHORITY = Authority.from_json(_KEPT["authority"])
HERE = Context("task", "00" * 32, "h0")
REPORT = HERE.report_digest(b"{}")

_TEXTS: dict[bytes, Callable[[object], object]] = {
    b"t": lambda text: verify(PARAMETERS, HERE, REPORT, text),
    b"r": AUTHORITY.enrol,
    b"a": ENROLMENT.finish,
}
_RECORDS: dict[bytes, type[GroupParameters] | type[Credential] | type[Enrolment] | type[Authority]] = {
    b"p": GroupParameters,
    b"c": Credential,
    b"e": Enrolment,
    b"k": Authority,
}


def one(data: bytes) -> None:
    door, rest = data[:1], data[1:]
    if door in _RECORDS:
        try:
            body = json.loads(rest)
        except (ValueError, RecursionError):
            return
        made = _RECORDS[door].from_json(body)
        assert made.as_json() == body
    elif door in _TEXTS:
        _TEXTS[door](rest.decode("utf-8", errors="surrogateescape"))
    elif door.lower() in _TEXTS:
        _TEXTS[door.lower()](codec.write(PARAMETERS.verifier.version, rest))
    else:
        raise Mistake("data", "begins with no letter that is known here")

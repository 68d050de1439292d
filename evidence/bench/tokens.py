"""Time that a token takes to make and to verify, alone and a thousand at once, on one core, beside the bare pairing.

The goal is about one second for a thousand tokens.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from typing import Any

from thebes.tokens import Authority, Context, Credential, Enrolment, Presented, verify, verify_many
from thebes.tokens.bbs.curve import POINT_BYTES, key_point, signed_by, times, write_point
from thebes.tokens.bbs.suite import P1

TOKENS, ALONE, ROUNDS = 1000, 100, 3


def run() -> dict[str, Any]:
    """Milliseconds for each step, bytes, and the ratio to two pairings, which no verification can do without."""
    authority = Authority.create("bench", "2026-12", minimum=2)
    published = authority.parameters(size=2)
    context = Context("task", hashlib.sha256(b"document").hexdigest(), "h0")
    begun = Enrolment.begin(published, pin=published.digest)
    response = authority.enrol(begun.request)
    credential = begun.finish(response)
    reports = [context.report_digest(b"%d" % number) for number in range(TOKENS)]
    tokens = [credential.present(context, report, published) for report in reports]
    presented = [Presented(context, report, token) for report, token in zip(reports, tokens, strict=True)]
    unsigned = Credential(published, write_point(times(P1, 7)) + credential._secret[POINT_BYTES:])
    bad = Presented(context, reports[0], unsigned.present(context, reports[0], published))  # found by halving only
    spoiled = [bad if number % 100 == 99 else one for number, one in enumerate(presented)]

    def alone() -> None:
        for one in presented[:ALONE]:
            verify(published, one.context, one.report_digest, one.token)

    def make() -> None:
        for report in reports[:ALONE]:
            credential.present(context, report, published)

    key, point = key_point(7), times(P1, 7)
    pairings = _milliseconds(lambda: [signed_by(key, P1, point) for _ in range(ALONE)], ALONE)
    together = _milliseconds(lambda: verify_many(published, presented), TOKENS)
    one = _milliseconds(alone, ALONE)
    return {
        "token characters": len(tokens[0]),
        "enrol, peer (ms)": _milliseconds(lambda: Enrolment.begin(published, pin=published.digest), 1),
        "enrol, authority (ms)": _milliseconds(lambda: authority.enrol(begun.request), 1),
        "enrol, peer's check (ms)": _milliseconds(lambda: begun.finish(response), 1),
        "make (ms)": _milliseconds(make, ALONE),
        "verify one (ms)": one,
        f"verify {TOKENS} (ms each)": together,
        f"verify {TOKENS}, 1 % unsigned (ms each)": _milliseconds(lambda: verify_many(published, spoiled), TOKENS),
        f"verify {TOKENS} (s)": together * TOKENS / 1000,
        "two pairings (ms)": pairings,
        "verify one, ratio to two pairings": one / pairings,
        f"verify {TOKENS}, ratio to two pairings each": together / pairings,
    }


def _milliseconds(work: Callable[[], Any], count: int) -> float:
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return 1000 * best / count


if __name__ == "__main__":
    for name, found in run().items():
        print(f"{name:44s} {found:10.3f}")

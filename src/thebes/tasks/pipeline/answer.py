"""The answer of a site about a pipeline: the verdict, every attempt, the bundle of a model that was accepted, and what
it all cost. It is one text of JSON, read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from thebes.curator.pipelines.validators import Verdict
from thebes.privacy.reading import read_json
from thebes.tasks.contributions import Slot
from thebes.tasks.release_reader import certificate_of

LONGEST = 2**22  #: characters; a model of some hundred thousand numbers
LAYOUT = {"answer": Slot("text", length=LONGEST)}
_MOST_ATTEMPTS = 1000
_BUNDLE = frozenset(
    ("model", "features", "inputs", "output", "validation", "confidence", "lineage", "published_at", "version", "name")
)


@dataclass(frozen=True, slots=True)
class PipelineAnswer:
    """`bundle` is there exactly where the verdict is ACCEPT; `certificate` says what was paid whatever the verdict."""

    verdict: str
    reason: str
    attempts: list[dict[str, Any]]
    certificate: dict[str, Any]
    bundle: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        return json.dumps(self.as_json(), allow_nan=False, ensure_ascii=False)


def read(text: str) -> PipelineAnswer:
    """The inverse of `as_text`; a ValueError, TypeError or KeyError for anything else."""
    body = read_json(text)
    answer = PipelineAnswer(**body)
    Verdict(answer.verdict)
    if not isinstance(answer.reason, str) or len(answer.reason) > 500:
        raise ValueError
    if not isinstance(answer.attempts, list) or len(answer.attempts) > _MOST_ATTEMPTS:
        raise ValueError
    if not all(isinstance(one, dict) and isinstance(one.get("number"), int) for one in answer.attempts):
        raise ValueError
    certificate = certificate_of(answer.certificate)
    if not all(math.isfinite(n) and n >= 0 for n in (certificate.epsilon, certificate.delta)):
        raise ValueError
    if (answer.verdict == Verdict.ACCEPT) is (answer.bundle is None):
        raise ValueError
    if answer.bundle is not None and (not isinstance(answer.bundle, Mapping) or set(answer.bundle) != _BUNDLE):
        raise ValueError
    return answer


def of_bundle(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a bundle in the store belongs into the answer."""
    return {name: bundle[name] for name in sorted(_BUNDLE)}

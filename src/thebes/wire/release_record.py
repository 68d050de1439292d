"""The record of a release: what a coordinator published as the answer to one document, and its signature of that.

The signed list has the digest of each document under its task, and that of each release under `release~TASK~PHASE`. A
record is a file that holds both as the very text that was hashed, so that nobody need spell JSON alike to check it, and
the list from the task's own entry on. A release's digest is that of two: of its certificate, and of all the rest, the
answer. So a record of the certificate alone, which has only the digest of the answer, rests on the same entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import rfc8785

from thebes.privacy.reading import NotJSON, read_json
from thebes.wire.problems import printable
from thebes.wire.refusals import BrokenRecord

RELEASE = "thebes release 1"
CERTIFICATE = "thebes certificate 1"
_SIGNED = b"thebes release 1\0"
_HEX = re.compile(r"[0-9a-f]{64}")
_FIELDS = ("format", "task_id", "phase", "document", "certificate", "answer", "answer_digest", "list")


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """A record as it was read; nothing of it is believed yet. `document`, `certificate` and `answer` are JSON texts;
    a certificate's record has no answer. `listed` is the part of the signed list."""

    task_id: str
    phase: int
    document: str
    certificate: str
    answer: str | None
    answer_digest: str
    listed: Mapping[str, Any]

    @classmethod
    def made(
        cls,
        task_id: str,
        phase: int,
        document: Mapping[str, Any],
        release: Mapping[str, Any],
        listed: Mapping[str, Any],
    ) -> Self:
        """Make the record of what was published."""
        certificate, answer = texts_of(release)
        return cls(task_id, phase, rfc8785.dumps(document).decode(), certificate, answer, _sha256(answer), listed)

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Read a saved record; BrokenRecord where it is none."""
        try:
            told = read_json(raw)
        except NotJSON as error:
            raise BrokenRecord(f"the file {error}") from None
        if not isinstance(told, Mapping) or told.get("format") not in (RELEASE, CERTIFICATE):
            raise BrokenRecord(
                "the file is not the record of a release: save one with release.save(path), or with Download on the "
                "task's page"
            )
        whole = told["format"] == RELEASE
        expected = set(_FIELDS) - {"answer_digest" if whole else "answer"}
        if wrong := expected ^ set(told):
            raise BrokenRecord(f"the record has {printable(min(map(str, wrong)), 40)!r} too much or too little")
        texts = [told[name] for name in ("task_id", "document", "certificate", "answer" if whole else "answer_digest")]
        if not all(isinstance(text, str) for text in texts) or type(told["phase"]) is not int:
            raise BrokenRecord("the record holds something else than texts")
        if not isinstance(told["list"], Mapping) or not 0 <= told["phase"] < 2**63:
            raise BrokenRecord("the record holds no part of a list, or no phase")
        task_id, document, certificate, last = texts
        digest = _sha256(last) if whole else last
        if not _HEX.fullmatch(digest):
            raise BrokenRecord("the record has no digest of the answer")
        return cls(task_id, told["phase"], document, certificate, last if whole else None, digest, told["list"])

    @property
    def digest(self) -> str:
        """Return the digest that the list must have of the release."""
        return _digest(_sha256(self.certificate), self.answer_digest)

    @property
    def document_digest(self) -> str:
        """Return the digest that the list must have of the task's document."""
        return _sha256(self.document)

    @property
    def release(self) -> dict[str, Any]:
        """The release as JSON, as it was published; of a certificate's record the certificate alone."""
        return {**({} if self.answer is None else _object(self.answer)), "certificate": _object(self.certificate)}

    @property
    def asked(self) -> dict[str, Any]:
        """The document as JSON."""
        return _object(self.document)

    def as_json(self, *, certificate_only: bool = False) -> dict[str, Any]:
        """The record as it is saved; `certificate_only` leaves the answer out, and names its digest."""
        alone = certificate_only or self.answer is None
        last = {"answer_digest": self.answer_digest} if alone else {"answer": self.answer}
        return {
            "format": CERTIFICATE if alone else RELEASE,
            "task_id": self.task_id,
            "phase": self.phase,
            "document": self.document,
            "certificate": self.certificate,
            **last,
            "list": dict(self.listed),
        }


def listed_release(task_id: str, phase: int) -> str:
    """Name the place where the signed list has the digest of a phase's release."""
    return f"release~{task_id}~{phase}"


def is_release(listed: str, task_id: str) -> bool:
    """Return whether an entry of the list is about a release of this task."""
    return listed.startswith(f"release~{task_id}~")


def texts_of(release: Mapping[str, Any]) -> tuple[str, str]:
    """Return a release's certificate and its answer, which is all the rest, as the texts that are hashed: the same
    however its JSON was spelled."""
    answer = {name: value for name, value in release.items() if name != "certificate"}
    return _spelled(release.get("certificate")), _spelled(answer)


def digest(release: Mapping[str, Any]) -> str:
    """Return the digest of a release as it is published."""
    certificate, answer = texts_of(release)
    return _digest(_sha256(certificate), _sha256(answer))


def digest_of_text(body: str) -> str:
    """Return the digest of a release as it is stored."""
    return digest(json.loads(body))


def _digest(certificate: str, answer: str) -> str:
    return hashlib.sha256(_SIGNED + bytes.fromhex(certificate) + bytes.fromhex(answer)).hexdigest()


def _spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _object(text: str) -> dict[str, Any]:
    try:
        told = read_json(text)
    except NotJSON as error:
        raise BrokenRecord(f"a text of the record {error}") from None
    if not isinstance(told, dict):
        raise BrokenRecord("a text of the record is no JSON object")
    return told

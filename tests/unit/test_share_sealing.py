"""A sealed share opens for the server, task, part and report that it was sealed for, and nowhere else."""

from __future__ import annotations

import os

import pytest

from thebes.privacy.faults import Mistake
from thebes.sharing import SealingKey, SealRefused, context_of, seal
from thebes.sharing.sealing import SEALED_MORE

CONTEXT = context_of(bytes(32), "phase0")
REPORT = {"context": CONTEXT, "nonce": bytes(16), "public_share": b"public"}


def test_its_server_reads_a_sealed_share() -> None:
    key = SealingKey.generate()
    sealed = seal(b"share", key.public, **REPORT)
    assert key.open(sealed, **REPORT) == b"share"
    assert len(sealed) == len(b"share") + SEALED_MORE
    assert b"share" not in sealed
    assert SealingKey.from_bytes(key.private_bytes()).open(sealed, **REPORT) == b"share"


def test_the_same_share_is_never_sealed_alike() -> None:
    key = SealingKey.generate()
    assert seal(b"share", key.public, **REPORT) != seal(b"share", key.public, **REPORT)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"context": context_of(bytes(32), "phase1")},
        {"context": context_of(b"\1" + bytes(31), "phase0")},
        {"nonce": b"\1" + bytes(15)},
        {"public_share": b"publi"},
        {"nonce": bytes(17), "public_share": b"ublic"},
    ],
    ids=["part", "task", "nonce", "public share", "a border moved"],
)
def test_it_opens_for_no_other_report(elsewhere) -> None:
    key = SealingKey.generate()
    sealed = seal(b"share", key.public, **REPORT)
    with pytest.raises(SealRefused, match="make a new report"):
        key.open(sealed, **{**REPORT, **elsewhere})


@pytest.mark.parametrize("length", [0, 31, 47, 200])
def test_what_was_never_sealed_does_not_open(length) -> None:
    with pytest.raises(SealRefused):
        SealingKey.generate().open(os.urandom(length), **REPORT)


def test_another_server_and_a_damaged_share_are_refused() -> None:
    key = SealingKey.generate()
    sealed = bytearray(seal(b"share", key.public, **REPORT))
    with pytest.raises(SealRefused):
        SealingKey.generate().open(bytes(sealed), **REPORT)
    sealed[-1] ^= 1
    with pytest.raises(SealRefused):
        key.open(bytes(sealed), **REPORT)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_a_key_of_another_length_is_named(key) -> None:
    with pytest.raises(Mistake) as mistake:
        seal(b"share", key, **REPORT)
    assert mistake.value.argument == "public_key"


def test_a_key_that_gives_everybody_the_same_secret_is_refused() -> None:
    with pytest.raises(Mistake) as mistake:
        seal(b"share", bytes(32), **REPORT)
    assert mistake.value.argument == "public_key"

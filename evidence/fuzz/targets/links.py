"""A target for what a site and a coordinator say to each other: `p` and pieces, each after its length in four bytes, or
`e` and one envelope."""

from __future__ import annotations

from thebes.wire.link import Assembly, Oversized, glance, pieces, read_envelope, write_envelope

MOST_BYTES = 2**20


def one(data: bytes) -> None:
    if data[:1] == b"e":
        message = read_envelope(data[1:], arrays=False)
        assert glance(data[1:])["id"] == message["id"]
        assert read_envelope(write_envelope(message), arrays=False) == message
        return
    assembly, place = Assembly(lambda _: MOST_BYTES), 1
    while place < len(data):
        length = int.from_bytes(data[place : place + 4], "big")
        piece, place = data[place + 4 : place + 4 + length], place + 4 + length
        try:
            whole = assembly.add(piece)
        except Oversized:
            continue  # the others go on
        if whole is not None:
            name, body = whole
            assert [Assembly().add(again) for again in pieces(name, body)][-1] == whole or len(body) > len(piece)

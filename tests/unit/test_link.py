"""The link's envelopes, pieces and pipe: whatever a stranger sends becomes a message, a refusal, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.wire.link import (
    FLOW,
    LARGEST_PIECE,
    METHOD,
    MOST_BYTES,
    MOST_OPEN,
    MOST_TEXT,
    PATH,
    PIECE_BYTES,
    SERVICE,
    Assembly,
    BlockingPipe,
    Oversized,
    Pipe,
    glance,
    pieces,
    read_envelope,
    write_blocks,
    write_envelope,
)
from thebes.wire.refusals import Malformed, TooLarge

LENGTHS = [0, 1, 63, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 3 * PIECE_BYTES + 7]


def whole(assembly: Assembly, sent: Iterator[bytes] | list[bytes]) -> list[tuple[str, bytes]]:
    found = [assembly.add(piece) for piece in sent]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_body_of_any_length_arrives_as_it_left(length: int) -> None:
    body = random.Random(length).randbytes(length)
    sent = list(pieces("m", body))
    assert max(map(len, sent)) <= LARGEST_PIECE
    assert len(sent) == max(1, -(-length // PIECE_BYTES))
    assert whole(Assembly(), sent) == [("m", body)]


@pytest.mark.parametrize("numbers", [3, 100_000])
def test_a_question_about_a_large_network_travels_with_its_document(numbers: int) -> None:
    asked = {"document": {"type": "train", "model": "x" * 20_000_000}, "payload": {"weights": np.ones(numbers)}}
    body = write_envelope({"kind": "ask", "id": "m", **asked})
    read = read_envelope(body)
    assert read["document"] == asked["document"]
    assert np.array_equal(read["payload"]["weights"], asked["payload"]["weights"])
    assert glance(body)["document"] == asked["document"]


def test_what_is_longer_than_any_document_is_refused() -> None:
    body = write_envelope({"kind": "ask", "id": "m", "document": "x" * MOST_TEXT, "payload": {"weights": np.ones(100)}})
    for reads in (read_envelope, glance):
        with pytest.raises(Malformed, match="too long"):
            reads(body)


@given(st.lists(st.integers(0, PIECE_BYTES + 5), max_size=6))
@examples(12)
def test_blocks_travel_as_if_they_were_one(lengths: list[int]) -> None:
    blocks = [random.Random(length).randbytes(length) for length in lengths]
    body = b"".join(blocks)
    sent = list(pieces("m", [memoryview(block) for block in blocks]))
    assert sent == list(pieces("m", body))
    assert whole(Assembly(), sent) == [("m", body)]


def test_messages_may_be_interleaved_but_their_pieces_keep_their_order() -> None:
    bodies = {str(n): random.Random(n).randbytes(2 * PIECE_BYTES + n) for n in range(1, 6)}
    ways = [list(pieces(name, body)) for name, body in bodies.items()]
    mixed = [piece for turn in zip(*ways, strict=True) for piece in turn]
    assert dict(whole(Assembly(), mixed)) == bodies
    first, second, third = ways[0]
    for wrong in ([second], [first, third], [first, first], [first, second, second]):
        with pytest.raises(Malformed):
            whole(Assembly(), wrong)


def test_a_changed_byte_is_noticed_wherever_it_is() -> None:
    sent = list(pieces("name", random.Random(1).randbytes(PIECE_BYTES + 100)))
    dice = random.Random(2)
    for _ in range(60):
        which, hurt = dice.randrange(len(sent)), [bytearray(piece) for piece in sent]
        hurt[which][dice.randrange(len(hurt[which]))] ^= 1 << dice.randrange(8)
        assembly = Assembly(lambda name: MOST_BYTES if name == "name" else 0)
        with contextlib.suppress(Malformed, Oversized):
            assert whole(assembly, [bytes(piece) for piece in hurt]) == []


@given(st.binary(max_size=300))
@examples(60)
def test_noise_is_never_a_message(noise: bytes) -> None:
    with pytest.raises(Malformed):
        Assembly().add(noise)
    with pytest.raises(Malformed):
        read_envelope(noise)
    with pytest.raises(Malformed):
        glance(noise)


def test_what_is_longer_than_allowed_is_skipped_and_the_others_go_on() -> None:
    assembly = Assembly(lambda name: {"short": 10, "long": MOST_BYTES}.get(name, 0))
    long, body = list(pieces("long", bytes(2 * PIECE_BYTES))), b"x" * 11
    assert assembly.add(long[0]) is None
    with pytest.raises(Oversized) as refused:
        assembly.add(next(pieces("short", body)))
    assert (refused.value.message_id, refused.value.most_bytes) == ("short", 10)
    several = list(pieces("nobody asked", bytes(3 * PIECE_BYTES)))
    with pytest.raises(Oversized):
        assembly.add(several[0])
    assert [assembly.add(piece) for piece in several[1:]] == [None, None]
    assert assembly.add(long[1]) == ("long", bytes(2 * PIECE_BYTES))
    assert assembly.add(next(pieces("short", b"x" * 10))) == ("short", b"x" * 10)


def test_what_nobody_waits_for_any_more_is_not_kept() -> None:
    assembly = Assembly()
    first, second = pieces("m", bytes(PIECE_BYTES + 1))
    assert assembly.add(first) is None
    assembly.skip("m")
    assembly.skip("unknown")
    assert assembly.add(second) is None
    assert assembly.add(next(pieces("m", b"again"))) == ("m", b"again")


def test_so_many_messages_may_be_under_way_and_no_more() -> None:
    assembly = Assembly()
    for n in range(MOST_OPEN):
        assert assembly.add(next(pieces(str(n), bytes(PIECE_BYTES + 1)))) is None
    with pytest.raises(Malformed):
        assembly.add(next(pieces("one more", bytes(PIECE_BYTES + 1))))


def test_an_envelope_comes_back_with_its_arrays_or_as_json() -> None:
    numbers, raw = np.arange(1000) / 7, np.frombuffer(random.Random(3).randbytes(999), dtype=np.uint8)
    message = {"kind": "ask", "id": "a", "payload": {"x": numbers, "w": raw, "few": [1, 2], "n": None}, "task": "t"}
    body = write_envelope(message)
    assert body == b"".join(write_blocks(message))
    read = read_envelope(body)
    np.testing.assert_array_equal(read["payload"]["x"], numbers)
    np.testing.assert_array_equal(read["payload"]["w"], raw)
    assert (read["payload"]["few"], read["payload"]["n"], read["task"]) == ([1, 2], None, "t")
    assert read_envelope(body, arrays=False)["payload"]["x"] == numbers.tolist()
    assert glance(body) == {"kind": "ask", "id": "a", "payload": {"few": [1, 2], "n": None}, "task": "t"}
    plain = {"kind": "ping", "id": "a"}
    assert write_envelope(plain) == b'{"kind": "ping", "id": "a"}'
    assert read_envelope(write_envelope(plain)) == plain


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"kind": "ask"}',
        b'{"kind": "ask", "id": ""}',
        b'{"kind": "", "id": "a"}',
        b'{"kind": 1, "id": "a"}',
        b'{"kind": "ask", "id": "a", "id": "b"}',
        b'{"kind": "ask", "id": "a", "x": NaN}',
        b'{"kind": "ask", "id": "a", "x": 1e999}',
        b'{"kind": "ask", "id": "' + b"a" * 201 + b'"}',
        '{"kind": "ask", "id": "ä"}'.encode(),
        b"{" * 5000,
        write_envelope({"kind": "ask", "id": "a", "payload": {"x": [1.5] * 100}})[:-1],
        write_envelope({"kind": "ask", "id": "a", "payload": {"x": [1.5] * 100}}) + b"x",
    ],
)
def test_what_is_not_exactly_an_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_envelope(body)


def test_the_pipe_carries_envelopes_both_ways_and_tells_the_end() -> None:
    big = {"kind": "ask", "id": "b", "payload": {"x": np.arange(500_000, dtype=np.int64)}}

    async def talk(ours: socket.socket) -> None:
        pipe = await Pipe.over(ours)
        await asyncio.gather(*(pipe.send({"kind": "ping", "id": str(n)}) for n in range(50)), pipe.send(big))
        heard = [await pipe.receive() for _ in range(51)]
        assert sorted(each["id"] for each in heard if each is not None) == sorted([*map(str, range(50)), "b"])
        (back,) = [each for each in heard if each is not None and each["id"] == "b"]
        np.testing.assert_array_equal(back["payload"]["x"], big["payload"]["x"])  # type: ignore[index]
        await pipe.send({"kind": "goodbye", "id": "g"})
        assert await pipe.receive() is None
        await pipe.close()

    ours, theirs = socket.socketpair()

    def echo() -> None:
        pipe = BlockingPipe(theirs)
        while (message := pipe.receive()) is not None and message["kind"] != "goodbye":
            pipe.send(message)
        pipe.close()

    other = threading.Thread(target=echo)
    other.start()
    asyncio.run(talk(ours))
    other.join()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"\0\0", Malformed),
        (b"\0\0\0\5abc", Malformed),
        (b"\0\0\0\0", TooLarge),
        (b"\xff\xff\xff\xff", TooLarge),
        (b"\0\0\0\3abc", Malformed),
    ],
)
def test_a_pipe_that_is_cut_or_holds_something_else_is_refused(sent: bytes, error: type[Exception]) -> None:
    for blocking in (True, False):
        ours, theirs = socket.socketpair()
        theirs.sendall(sent)
        theirs.close()
        if blocking:
            pipe = BlockingPipe(ours)
            with pytest.raises(error):
                pipe.receive()
            pipe.close()
            continue

        async def receive(end: socket.socket = ours) -> None:
            waiting = await Pipe.over(end)
            try:
                await waiting.receive()
            finally:
                await waiting.close()

        with pytest.raises(error):
            asyncio.run(receive())


def test_an_empty_envelope_is_not_sent() -> None:
    ours, theirs = socket.socketpair()
    with pytest.raises(TooLarge):
        BlockingPipe(ours).send_bytes(b"")
    ours.close()
    theirs.close()


def test_of_messages_that_are_not_whole_only_so_much_is_kept_together() -> None:
    """Each may be as long as one may be; sixteen of them would be eight gigabytes."""
    assembly = Assembly(most_held=4 * PIECE_BYTES)
    several = [pieces(f"m{n}", bytes(3 * PIECE_BYTES)) for n in range(3)]
    for _ in range(2):
        for each in several[:2]:
            assert assembly.add(next(each)) is None
    with pytest.raises(Malformed, match="together"):
        assembly.add(next(several[2]))


def test_what_is_whole_or_skipped_leaves_room_for_others() -> None:
    assembly = Assembly(lambda name: 0 if name == "nobody" else MOST_BYTES, most_held=2 * PIECE_BYTES)
    for n in range(5):
        first, second = pieces(f"m{n}", bytes(2 * PIECE_BYTES))
        assert assembly.add(first) is None
        assert assembly.add(second) is not None
    several = pieces("nobody", bytes(4 * PIECE_BYTES))
    with pytest.raises(Oversized):
        assembly.add(next(several))
    assert [assembly.add(next(several)) for _ in range(2)] == [None, None]
    given_up = pieces("given up", bytes(3 * PIECE_BYTES))
    assert [assembly.add(next(given_up)) for _ in range(2)] == [None, None]
    assembly.skip("given up")
    assert assembly.add(next(pieces("m9", bytes(2 * PIECE_BYTES)))) is None


@pytest.mark.parametrize("packs", ["site", "coordinator"])
def test_neither_end_of_the_link_takes_what_is_packed(packs: str) -> None:
    """A real channel, of which one end packs; ten megabytes of nothing would be ten kilobytes."""
    heard: list[int] = []

    async def talk(pieces_of: Any, context: Any) -> Any:
        if packs == "coordinator":
            yield bytes(PIECE_BYTES)
            return
        async for piece in pieces_of:
            heard.append(len(piece))
        yield b""

    async def main() -> grpc.StatusCode:
        squeezed = grpc.Compression.Gzip
        server = grpc.aio.server(
            options=None if packs == "coordinator" else FLOW, compression=squeezed if packs == "coordinator" else None
        )
        handler = grpc.stream_stream_rpc_method_handler(talk)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        options, compression = (None, squeezed) if packs == "site" else (FLOW, None)
        address = f"127.0.0.1:{port}"
        try:
            async with grpc.aio.insecure_channel(address, options=options, compression=compression) as channel:
                call = channel.stream_stream(PATH)()
                if packs == "site":
                    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await call.write(bytes(PIECE_BYTES))
                        await call.done_writing()
                with contextlib.suppress(grpc.aio.AioRpcError):
                    while (piece := await call.read()) is not grpc.aio.EOF:
                        heard.append(len(piece))
                return await call.code()
        finally:
            await server.stop(0)

    assert asyncio.run(main()) in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNIMPLEMENTED)
    assert heard == []

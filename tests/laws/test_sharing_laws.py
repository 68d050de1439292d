"""Laws of reports in shares: sums are exact, a share alone tells nothing, and nothing but an honest report counts."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.support import plain_prio3 as plain
from tests.support.examples import examples
from thebes.privacy.faults import Mistake
from thebes.sharing import LEADER, PreparedShares, Prio3, context_of, elements, opened, signed
from thebes.sharing import expansion as stretching
from thebes.sharing.circuits import Bits, CountCircuit, Integers, SumCircuit, VectorCircuit
from thebes.sharing.expansion import Expansion, Usage
from thebes.sharing.field import (
    ORDER,
    Bytes,
    Elements,
    add,
    canonical,
    element,
    multiply,
    negate,
    powers,
    read,
    roots,
    subtract,
    total,
    weights_at,
    written,
)
from thebes.sharing.prio3 import HISTOGRAM, VECTOR
from thebes.sharing.proofs import Proofs
from thebes.sharing.turboshake import turboshake128
from thebes.testing.statistics import LEVEL

CONTEXT = context_of(bytes(range(32)), "phase0")
KEY = bytes(range(32, 64))
EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, ORDER - 2**32, ORDER - 2, ORDER - 1]
ELEMENTS = st.sampled_from(EDGES) | st.integers(0, ORDER - 1)

#: reports of each kind, and numbers that an honest person may send
KINDS: dict[str, tuple[Callable[[], Prio3], st.SearchStrategy[list[int]]]] = {
    "count": (lambda: Prio3.count(CONTEXT), st.lists(st.integers(0, 1), min_size=1, max_size=1)),
    "sum": (lambda: Prio3.sum(100, CONTEXT), st.lists(st.integers(0, 100), min_size=1, max_size=1)),
    "vector": (
        lambda: Prio3.vector([5, 1, 300], CONTEXT),
        st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 300)).map(list),
    ),
    "histogram": (
        lambda: Prio3.histogram(6, CONTEXT),
        st.integers(0, 5).map(lambda cell: [int(cell == place) for place in range(6)]),
    ),
}
#: the same on plain numbers
PLAIN = {
    "count": plain.PlainPrio3(plain.PlainCircuit("count", plain.FIELD64), 1, CONTEXT),
    "sum": plain.PlainPrio3(plain.PlainCircuit("sum", plain.FIELD64, (100,)), 2, CONTEXT),
    "vector": plain.PlainPrio3(plain.PlainCircuit("vector", plain.FIELD64, (5, 1, 300), 4), VECTOR, CONTEXT, 3),
    "histogram": plain.PlainPrio3(plain.PlainCircuit("histogram", plain.FIELD64, (1,) * 6, 2), HISTOGRAM, CONTEXT, 3),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def fresh(count: int, length: int) -> Bytes:
    return np.frombuffer(os.urandom(count * length), dtype=np.uint8).reshape(count, length)


def array(numbers: list[int]) -> Elements:
    return np.array(numbers, dtype=np.uint64)


class Made:
    """Reports with what both servers find of them, where `change` may have changed what was sent."""

    def __init__(
        self, prio: Prio3, measurements: list[list[int]], change: Callable[[dict[str, Bytes]], None] | None = None
    ) -> None:
        count = len(measurements)
        self.prio, self.nonces = prio, fresh(count, 16)
        made = prio.shard(np.array(measurements, dtype=np.int64), self.nonces, fresh(count, prio.randomness_bytes))
        sent = {"nonces": self.nonces.copy(), "public": made.public, "leader": made.shares[0], "helper": made.shares[1]}
        sent = {name: raw.copy() for name, raw in sent.items()}
        if change is not None:
            change(sent)
        self.sent = sent
        self.leader = prio.prepare(LEADER, KEY, sent["nonces"], sent["public"], sent["leader"])
        self.helper = prio.prepare(1, KEY, sent["nonces"], sent["public"], sent["helper"])

    def accepted(self) -> np.ndarray:
        held, seed = self.prio.decide([self.leader.verifier, self.helper.verifier])
        return self.prio.confirmed(self.leader, held, seed) & self.prio.confirmed(self.helper, held, seed)

    def sums(self) -> list[int]:
        counted = self.accepted()
        return signed(opened([self.prio.aggregate(one, counted) for one in (self.leader, self.helper)]))


@given(st.lists(st.tuples(ELEMENTS, ELEMENTS), min_size=1, max_size=20))
def test_arithmetic_is_that_of_whole_numbers_modulo_the_order(pairs) -> None:
    a, b = array([a for a, _ in pairs]), array([b for _, b in pairs])
    assert add(a, b).tolist() == [(x + y) % ORDER for x, y in pairs]
    assert subtract(a, b).tolist() == [(x - y) % ORDER for x, y in pairs]
    assert multiply(a, b).tolist() == [x * y % ORDER for x, y in pairs]
    assert negate(a).tolist() == [-x % ORDER for x, _ in pairs]


def test_arithmetic_is_right_at_every_pair_of_edges() -> None:
    a, b = (grid.reshape(-1) for grid in np.meshgrid(array(EDGES), array(EDGES)))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert add(a, b).tolist() == [(x + y) % ORDER for x, y in pairs]
    assert subtract(a, b).tolist() == [(x - y) % ORDER for x, y in pairs]
    assert multiply(a, b).tolist() == [x * y % ORDER for x, y in pairs]
    assert read(written(a[None])).tolist() == [a.tolist()]


@given(st.lists(ELEMENTS, min_size=1, max_size=40), st.integers(1, 20))
def test_sums_and_powers_are_exact(numbers, count) -> None:
    column = array(numbers)[:, None]
    assert total(np.repeat(column, 1000, axis=0), 0).tolist() == [1000 * sum(numbers) % ORDER]
    assert powers(column[:, 0], count).tolist() == [[pow(x, e + 1, ORDER) for e in range(count)] for x in numbers]


@given(st.integers(-(2**62), 2**62))
def test_numbers_keep_their_sign(number) -> None:
    assert signed(elements(np.array([number]))) == signed(np.array([element(number)])) == [number]


@given(st.lists(ELEMENTS, min_size=4, max_size=4), ELEMENTS)
def test_a_polynomial_is_evaluated_at_any_point_even_a_root(values, point) -> None:
    points = [point, *roots(4).tolist()]
    found = total(multiply(weights_at(array(points), 4), array(values)), 1)
    assert found.tolist() == [plain.FIELD64.value_at(point, values), *values]


@pytest.mark.parametrize("length", [0, 1, 167, 168, 169, 335, 336, 500])
def test_messages_of_every_length_are_stretched_as_one_by_one(length) -> None:
    messages = fresh(3, length)
    found = turboshake128(messages, 400)
    assert [row.tobytes() for row in found] == [plain.turboshake128(row.tobytes(), 400) for row in messages]


def test_more_messages_than_are_taken_at_once_are_stretched_alike() -> None:
    messages = fresh(600, 20)
    assert (turboshake128(messages, 40) == np.concatenate([turboshake128(m[None], 40) for m in messages])).all()


def test_words_that_are_no_elements_are_passed_over(monkeypatch) -> None:
    def stream(messages: Bytes, length: int) -> Bytes:
        """A stream in which every third word is too large."""
        words = np.arange(-(-length // 8), dtype=np.uint64)
        words[words % np.uint64(3) == 0] = np.uint64(2**64 - 1)
        return np.broadcast_to(words.view(np.uint8)[:length], (len(messages), length)).copy()

    monkeypatch.setattr(stretching, "turboshake128", stream)
    found = Expansion(1, b"").elements(Usage.PROOF_SHARE, fresh(2, 32), fresh(2, 1), 50)
    assert found.tolist() == [[word for word in range(100) if word % 3][:50]] * 2
    assert canonical(found).all()


@kinds
@pytest.mark.few(2)
@examples(12)
@given(st.data())
def test_the_opened_sum_is_that_of_the_numbers_whatever_the_order_and_the_batches(kind, data) -> None:
    make, numbers = KINDS[kind]
    given_numbers = data.draw(st.lists(numbers, min_size=1, max_size=8))
    made = Made(make(), given_numbers)
    assert made.accepted().all()
    assert made.sums() == np.sum(given_numbers, axis=0).tolist()
    order = data.draw(st.permutations(range(len(given_numbers))))
    sent = {name: raw[order] for name, raw in made.sent.items()}
    sums = made.prio.nothing()
    for place, row in enumerate(order):
        one = slice(place, place + 1)
        alone = made.prio.prepare(LEADER, KEY, sent["nonces"][one], sent["public"][one], sent["leader"][one])
        assert (alone.verifier == made.leader.verifier[row]).all()
        sums = add(sums, made.prio.aggregate(alone, np.array([True])))
    assert (sums == made.prio.aggregate(made.leader, made.accepted())).all()


@kinds
@pytest.mark.parametrize("reports", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_both_servers_find_what_plain_numbers_find(kind, reports) -> None:
    prio, slow = KINDS[kind][0](), PLAIN[kind]
    chosen = np.random.default_rng(reports)
    if kind == "histogram":
        measurements = np.eye(6, dtype=np.int64)[chosen.integers(0, 6, reports)]
    else:
        measurements = chosen.integers(0, np.array(slow.circuit.largest) + 1, (reports, prio.circuit.outputs))
    nonces, drawn = fresh(reports, 16), fresh(reports, prio.randomness_bytes)
    made = prio.shard(measurements, nonces, drawn)
    leader = prio.prepare(LEADER, KEY, nonces, made.public, made.shares[0])
    helper = prio.prepare(1, KEY, nonces, made.public, made.shares[1])
    held, seed = prio.decide([leader.verifier, helper.verifier])
    for row in range(reports):
        nonce = nonces[row].tobytes()
        public, shares = slow.shard(measurements[row].tolist(), nonce, drawn[row].tobytes())
        assert made.public[row].tobytes() == public
        assert [share[row].tobytes() for share in made.shares] == shares
        for server, ours in enumerate((leader, helper)):
            outputs, verifier, own = slow.prepare(server, KEY, nonce, public, shares[server])
            assert ours.outputs[row].tolist() == outputs
            assert (ours.verifier[row].tobytes(), ours.seed[row].tobytes()) == (verifier, own)
        assert slow.decide([leader.verifier[row].tobytes(), helper.verifier[row].tobytes()]) == (
            bool(held[row]),
            seed[row].tobytes(),
        )


def spread_evenly(found: Bytes) -> bool:
    return chisquare(np.bincount(found.reshape(-1), minlength=256)).pvalue > LEVEL


@kinds
def test_a_share_alone_is_uniform_whatever_the_value(kind) -> None:
    prio, count = KINDS[kind][0](), 2000
    for value in (0, -1):
        one = {"count": [-value], "sum": [-100 * value], "vector": [-5 * value, 0, 0]}.get(kind, [0] * 6)
        if kind == "histogram":
            one[value] = 1
        numbers = np.array([one] * count, dtype=np.int64)
        drawn = fresh(count, prio.randomness_bytes)
        made = prio.shard(numbers, fresh(count, 16), drawn)
        assert spread_evenly(made.shares[0])
        # the helper's is what was drawn, so it holds nothing of the value
        assert (made.shares[1] == drawn[:, : prio.helper_bytes]).all()


@kinds
def test_what_the_servers_tell_each_other_looks_the_same_whatever_the_value(kind) -> None:
    prio = KINDS[kind][0]()
    least = [0] * prio.circuit.outputs
    if kind == "histogram":
        least[0] = 1
    made = Made(prio, [least] * 2000)
    end = len(made.leader.verifier[0]) - (32 if prio.public_bytes else 0)
    both = add(read(made.leader.verifier[:, :end]), read(made.helper.verifier[:, :end]))
    each = both.reshape(len(both) * prio.proofs, -1)
    assert (each[:, 0] == 0).all()
    # each wire at the random point is hidden by its own random first value; what follows from them is left out
    wires = each[:, 1:2] if kind == "count" else each[:, 1:-1]
    assert spread_evenly(written(wires))
    assert spread_evenly(made.helper.verifier)


@kinds
@pytest.mark.few(2)
@examples(12)
@given(st.data())
def test_one_changed_bit_anywhere_is_refused_and_spoils_no_other_report(kind, data) -> None:
    make, numbers = KINDS[kind]
    given_numbers = data.draw(st.lists(numbers, min_size=3, max_size=3))
    prio = make()
    where = data.draw(st.sampled_from(["nonces", "leader", "helper", *(["public"] if prio.public_bytes else [])]))

    def change(sent: dict[str, Bytes]) -> None:
        row = sent[where][1]
        row[data.draw(st.integers(0, len(row) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    made = Made(prio, given_numbers, change)
    assert made.accepted().tolist() == [True, where == "nonces" and not prio.public_bytes, True]
    if not made.accepted()[1]:
        assert made.sums() == np.sum([given_numbers[0], given_numbers[2]], axis=0).tolist()


def raw_encoding(prio: Prio3, rows: Elements) -> Prio3:
    """Let a liar prove any encoding as an honest person proves theirs."""
    prio.circuit.encode = lambda measurements: rows.copy()
    return prio


@pytest.mark.parametrize(
    ("prio", "encoding"),
    [
        (Prio3.sum(100, CONTEXT), [2, 0, 0, 0, 0, 0, 0]),
        (Prio3.sum(100, CONTEXT), [ORDER - 1, 0, 0, 0, 0, 0, 0]),
        (Prio3.vector([3, 3], CONTEXT), [1, 1, 2**32, 0]),
        (Prio3.histogram(4, CONTEXT), [2, 0, 0, 0]),
        (Prio3.histogram(4, CONTEXT), [2, ORDER - 1, 0, 0]),
        (Prio3.histogram(4, CONTEXT), [1, 1, 0, 0]),
        (Prio3.histogram(4, CONTEXT), [0, 0, 0, 0]),
    ],
    ids=["bit of 2", "bit of -1", "bit of 2^32", "cell of 2", "cells of 2 and -1", "two cells", "no cell"],
)
def test_nobody_proves_what_an_honest_person_cannot_send(prio, encoding) -> None:
    made = Made(raw_encoding(prio, array([*encoding])[None].repeat(50, axis=0)), [[0] * prio.circuit.outputs] * 50)
    assert not made.accepted().any()
    assert made.sums() == [0] * prio.circuit.outputs


def test_a_count_of_two_is_not_proved() -> None:
    class Twice(CountCircuit):
        def encode(self, measurements: Integers) -> Elements:
            return np.full((len(measurements), 1), 2, dtype=np.uint64)

    assert not Made(Prio3(Twice(), CONTEXT, algorithm=1), [[0]] * 50).accepted().any()


@kinds
def test_a_proof_of_another_task_part_or_key_is_refused(kind) -> None:
    make, _ = KINDS[kind]
    prio = make()
    least = [0] * prio.circuit.outputs
    if kind == "histogram":
        least[0] = 1
    made = Made(prio, [least])
    other = Prio3(prio.circuit, context_of(bytes(32), "phase0"), algorithm=prio._expansion.algorithm)
    sent = made.sent
    there = [
        other.prepare(server, KEY, sent["nonces"], sent["public"], sent[name])
        for server, name in enumerate(("leader", "helper"))
    ]
    assert not other.decide([one.verifier for one in there])[0].any()
    odd = prio.prepare(1, bytes(32), sent["nonces"], sent["public"], sent["helper"])
    assert not prio.decide([made.leader.verifier, odd.verifier])[0].any()


def test_numbers_that_are_no_elements_are_refused_and_tell_nothing() -> None:
    def change(sent: dict[str, Bytes]) -> None:
        sent["leader"][1, :8] = 255

    made = Made(Prio3.histogram(4, CONTEXT), [[1, 0, 0, 0]] * 3, change)
    assert made.leader.readable.tolist() == [True, False, True]
    assert not made.leader.verifier[1].any()
    assert made.accepted().tolist() == [True, False, True]
    verifier = made.helper.verifier.copy()
    verifier[2, :8] = 255
    assert made.prio.decide([made.leader.verifier, verifier])[0].tolist() == [True, False, False]


def test_a_point_at_which_a_value_would_be_told_as_it_is_is_found() -> None:
    proofs = Proofs(VectorCircuit([1] * 9, 3))
    points = roots(proofs.size)
    assert not proofs.sound_points(np.stack([points, points], axis=1)).any()
    assert proofs.sound_points(np.array([[5, element(3)]], dtype=np.uint64)).all()


def test_a_server_that_saw_other_shares_does_not_confirm() -> None:
    prio = Prio3.histogram(4, CONTEXT)
    made = Made(prio, [[1, 0, 0, 0]])
    held, seed = prio.decide([made.leader.verifier, made.helper.verifier])
    elsewhere = PreparedShares(made.leader.outputs, made.leader.verifier, made.leader.seed ^ 1, made.leader.readable)
    assert prio.confirmed(made.leader, held, seed).all()
    assert not prio.confirmed(elsewhere, held, seed).any()


@given(st.integers(1, 2**20), st.data())
def test_every_number_up_to_the_largest_is_its_bits_and_none_above_can_be(largest, data) -> None:
    bits = Bits([largest])
    for number in {0, 1, largest, data.draw(st.integers(0, largest))}:
        assert bits.truncate(bits.encode(np.array([[number]]))).tolist() == [[number]]
    assert bits.truncate(np.ones((1, bits.inputs), dtype=np.uint64)).tolist() == [[largest]]


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        (lambda: Prio3.sum(0, CONTEXT), "largest"),
        (lambda: Prio3.sum(2**62 + 1, CONTEXT), "largest"),
        (lambda: Prio3.sum(True, CONTEXT), "largest"),
        (lambda: VectorCircuit([2, 1], one_hot=True), "largest"),
        (lambda: VectorCircuit([1, 1], chunk=3), "chunk"),
        (lambda: Prio3(SumCircuit(1), CONTEXT, algorithm=2, shares=1), "shares"),
        (lambda: Prio3.count(CONTEXT * 100), "context"),
        (lambda: context_of(b"short", "phase0"), "task_digest"),
        (lambda: Prio3.sum(3, CONTEXT).shard(np.array([[4]]), fresh(1, 16), fresh(1, 64)), "measurements"),
        (lambda: Prio3.sum(3, CONTEXT).shard(np.array([[-1]]), fresh(1, 16), fresh(1, 64)), "measurements"),
        (lambda: Prio3.sum(3, CONTEXT).shard(np.array([[1.0]]), fresh(1, 16), fresh(1, 64)), "measurements"),
        (lambda: Prio3.sum(3, CONTEXT).shard(np.array([[1]]), fresh(1, 15), fresh(1, 64)), "nonces"),
        (lambda: Prio3.sum(3, CONTEXT).shard(np.array([[1]]), fresh(1, 16), fresh(1, 63)), "randomness"),
        (lambda: Prio3.sum(3, CONTEXT).prepare(1, KEY, fresh(1, 16), fresh(1, 0), fresh(1, 31)), "share"),
        (lambda: Prio3.sum(3, CONTEXT).prepare(0, b"", fresh(1, 16), fresh(1, 0), fresh(1, 32)), "verify_key"),
        (lambda: Prio3.sum(3, CONTEXT).decide([fresh(1, 24)]), "verifiers"),
        (lambda: Prio3.sum(3, CONTEXT).decide([fresh(1, 24), fresh(1, 23)]), "verifiers"),
        (lambda: read(fresh(1, 9)), "share"),
    ],
)
def test_wrong_arguments_are_named(broken, names) -> None:
    with pytest.raises(Mistake) as mistake:
        broken()
    assert mistake.value.argument == names


def test_no_report_is_no_sum() -> None:
    prio = Prio3.histogram(4, CONTEXT)
    made = Made(prio, [[1, 0, 0, 0]])
    assert prio.aggregate(made.leader, np.array([False])).tolist() == prio.nothing().tolist() == [0] * 4

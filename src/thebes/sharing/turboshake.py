"""TurboSHAKE128 of many messages of one length at once: the permutation Keccak-p[1600, 12] on columns of numpy.

Source: RFC 9861; rotations and order of the lanes as in FIPS 202. Held by the vectors of the RFC and of the VDAF draft.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thebes.sharing.field import Bytes

RATE = 168  #: bytes of a message that one permutation takes in, or gives out
_LANES = RATE // 8
_ROUNDS = 12
_AT_ONCE = 256  #: messages, so that their states stay in cache

Lanes = NDArray[np.uint64]


def _steps() -> tuple[list[np.uint64], NDArray[np.uint64], NDArray[np.intp]]:
    """Work out the constants: of the last 12 rounds, each lane's rotation, and the lane that comes to each place."""
    register, constants = 1, []
    for _ in range(24):
        constant = 0
        for place in range(7):
            constant |= (register & 1) << (2**place - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(np.uint64(constant))
    turns, sources = np.zeros(25, dtype=np.uint64), np.zeros(25, dtype=np.intp)
    x, y = 1, 0
    for step in range(24):
        turns[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    for x in range(5):
        for y in range(5):
            sources[y + 5 * ((2 * x + 3 * y) % 5)] = x + 5 * y
    return constants[-_ROUNDS:], turns, sources


_CONSTANTS, _TURNS, _SOURCES = _steps()
_LEFT = _TURNS[_SOURCES][:, None]
_RIGHT = (np.uint64(64) - _LEFT) % np.uint64(64)  # a lane that is not turned is or-ed with itself
_ONE, _LAST = np.uint64(1), np.uint64(63)
_BEFORE, _NEXT, _AFTER = (np.array([(x + by) % 5 for x in range(5)]) for by in (-1, 1, 2))
_NEXT_LANES, _LANES_AFTER = ((5 * np.arange(5)[:, None] + to).reshape(-1) for to in (_NEXT, _AFTER))


def turboshake128(messages: Bytes, length: int, domain: int = 1) -> Bytes:
    """Return `length` bytes for each row of `messages`; `domain` is the separation byte, 1 to 127."""
    found = np.empty((len(messages), length), dtype=np.uint8)
    for start in range(0, len(messages), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        found[part] = _squeezed(_absorbed(messages[part], domain), length)
    return found


def _absorbed(messages: Bytes, domain: int) -> Lanes:
    count, length = messages.shape
    blocks = length // RATE + 1
    padded = np.zeros((count, blocks * RATE), dtype=np.uint8)
    padded[:, :length] = messages
    padded[:, length] ^= domain
    padded[:, -1] ^= 0x80
    lanes = padded.view("<u8").reshape(count, blocks, _LANES)
    state = np.zeros((25, count), dtype=np.uint64)
    for block in range(blocks):
        state[:_LANES] ^= lanes[:, block].T
        state = _permuted(state)
    return state


def _squeezed(state: Lanes, length: int) -> Bytes:
    pieces = []
    for block in range(-(-length // RATE)):
        if block:
            state = _permuted(state)
        pieces.append(np.ascontiguousarray(state[:_LANES].T, dtype="<u8").view(np.uint8))
    return np.concatenate(pieces, axis=1)[:, :length] if pieces else np.empty((state.shape[1], 0), dtype=np.uint8)


def _permuted(state: Lanes) -> Lanes:
    count = state.shape[1]
    for constant in _CONSTANTS:
        parity = np.bitwise_xor.reduce(state.reshape(5, 5, count), axis=0)
        mixed = parity.take(_NEXT, axis=0)
        carried = mixed >> _LAST
        mixed <<= _ONE
        mixed |= carried
        mixed ^= parity.take(_BEFORE, axis=0)
        lanes = (state.reshape(5, 5, count) ^ mixed).reshape(25, count).take(_SOURCES, axis=0)
        moved = lanes >> _RIGHT
        lanes <<= _LEFT
        lanes |= moved
        state = lanes.take(_NEXT_LANES, axis=0)
        np.invert(state, out=state)
        state &= lanes.take(_LANES_AFTER, axis=0)
        state ^= lanes
        state[0] ^= constant
    return state

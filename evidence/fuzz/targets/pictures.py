"""A target for what somebody sends as a picture.

What must stay true: it is a tensor of the declared shape, or cannot be read; and the process that decodes pictures is
there for the next one, which it decodes as ever.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from evidence.fuzz.kept import OPEN
from tests.support.pictures import noise
from thebes.data.pictures.decoder import PictureDecoder
from thebes.data.pictures.folder import UnreadablePicture
from thebes.privacy.faults import Mistake

_GOOD = noise(1)


@cache
def _decoder() -> PictureDecoder:
    decoder = PictureDecoder((3, 8, 8))
    OPEN.callback(decoder.close)
    return decoder


@cache
def _expected() -> bytes:
    return _decoder().decoded(_GOOD).tobytes()


def one(data: bytes) -> None:
    wanted = _expected()
    try:
        found = _decoder().decoded(data)
    except UnreadablePicture as why:
        raise Mistake("photo", str(why)) from None
    finally:
        assert _decoder().decoded(_GOOD).tobytes() == wanted, "one picture changed another"
    assert found.shape == (3, 8, 8)
    assert found.dtype == np.uint8

"""The number of examples of a law: the same few in every run, ten times as many in `make laws`, always others."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings

AGAIN = "THEBES_EXPLORE" not in os.environ
#: of a law that names no number
USUALLY = 25
_MORE = 1 if AGAIN else 10


def examples(few: int, **more: Any) -> settings:
    return settings(max_examples=few * _MORE, **more)


def load() -> None:
    """Make this what holds for each law. How long an example takes tells about the machine and who else works on it."""
    slow = [HealthCheck.too_slow]
    settings.register_profile("thebes", examples(USUALLY, deadline=None, derandomize=AGAIN, suppress_health_check=slow))
    settings.load_profile("thebes")

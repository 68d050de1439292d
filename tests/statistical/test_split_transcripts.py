"""All that one server of split trust is told, over the real messages: made without the person it looks the same."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_1samp, ks_2samp, uniform

from tests.support.split_helper import Led, Ward
from thebes.privacy.randomness import system
from thebes.sharing.field import ORDER, read
from thebes.testing.statistics import LEVEL, assert_size

PEOPLE = 400
EPSILON = 0.1  # small, so that whole numbers look continuous
BINS = 250
COUNT = {"aggregator": "count", "missing": "count", "bounds": None}
CELLS = {"aggregator": "histogram", "bins": 4}


def told(ward: Ward, task: str, value: float, more: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return what each server holds or hears of people who all have this value, as numbers between 0 and 1."""
    led = Led(ward, task=task, **more)
    message, _ = led.rows([value] * PEOPLE)
    answer = led.step("verify", number=0, reports=message)
    assert answer["counted"] == "1" * PEOPLE  # whatever the value: that is all that the verdict says
    prio, reports, prepared = led.leader._prio, led.sent[0], led.sent[1]
    share = reports.leader[:, : prio.leader_bytes - (32 if prio.public_bytes else 0)]
    verifier = prepared.verifier[:, : 8 * prio._all_verifiers]
    seeds = np.frombuffer(base64.b64decode(answer["seeds"]), dtype=np.uint8).reshape(PEOPLE, -1)
    heard = {"leader: its share": read(np.ascontiguousarray(share)), "helper: the leader's verifier": read(verifier)}
    if prio.public_bytes:
        heard["both: the public share"] = np.ascontiguousarray(reports.public).view("<u8")
        heard["leader: the seeds"] = np.ascontiguousarray(seeds).view("<u8")
    return {name: numbers / float(ORDER) for name, numbers in heard.items()}


@pytest.mark.parametrize(
    ("more", "one", "other"), [(COUNT, 40.0, float("nan")), (CELLS, 10.0, 90.0), ({}, 0.0, 100.0)], ids=str
)
def test_what_either_server_is_told_is_that_of_a_simulator_without_the_person(
    tmp_path: Path, more: dict[str, Any], one: float, other: float
) -> None:
    """The simulator draws uniform numbers, and says that every report is counted. Both worlds are held against it, and
    against each other, number by number; a mark of the value in any of them would show."""
    ward = Ward(tmp_path / "ward")
    here, there = told(ward, "here", one, more), told(ward, "there", other, more)
    tests = sum(numbers.shape[1] for numbers in here.values()) * 3
    for name, numbers in here.items():
        for column in range(numbers.shape[1]):
            pairs = (numbers[:, column], there[name][:, column])
            for drawn in pairs:
                assert ks_1samp(drawn, uniform.cdf).pvalue > LEVEL / tests, (name, column)
            assert ks_2samp(*pairs).pvalue > LEVEL / tests, (name, column)


def test_the_sum_that_a_helper_says_has_noise_that_suffices_alone(tmp_path: Path) -> None:
    """A leader that made up everybody but one, and takes off the sum whatever it knows, is left with this noise."""
    ward, left = Ward(tmp_path / "ward", randomness=system), list[float]()
    for task in range(16):
        led = Led(ward, task=f"t{task}", aggregator="histogram", bins=BINS, epsilon=EPSILON)
        message, nonces = led.rows([0.1] * 11)
        led.step("verify", number=0, reports=message)
        theirs = [int(each, 16) for each in led.close(nonces)["sum"]]
        prio, noise = led.leader._prio, led.leader.splitting.noises[0].noise
        ours = prio.aggregate(led.sent[1], np.ones(11, dtype=np.bool_)).tolist()
        whole = [(a * noise.finer + b) % ORDER for a, b in zip(ours, theirs, strict=True)]
        counts = np.array([each - ORDER if each > ORDER // 2 else each for each in whole]) / noise.finer
        counts[0] -= 11
        left += counts.tolist()
    assert_size(np.array(left), "laplace", 2 / EPSILON)
